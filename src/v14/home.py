"""Where a memory lies: a directory, or the URL of a store that several servers share."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from v14.errors import OptionError

SCHEMES = ("postgresql", "postgres")

EXAMPLE = "postgresql://user@host/database?segments=s3://bucket/prefix"


@dataclass(frozen=True, kw_only=True)
class SharedHome:
    """A catalog in PostgreSQL and segments in an S3-compatible object store.

    conninfo: libpq's URL of the database; a password in it is shown to nobody. bucket and prefix: where the segments
    lie. endpoint: URL of an object store that is not Amazon's; empty for what the AWS variables say. region: its
    region, likewise.
    """

    conninfo: str = field(repr=False)
    bucket: str
    prefix: str
    endpoint: str = ""
    region: str = ""

    @classmethod
    def parse(cls, url: str) -> "SharedHome":
        """Take our own parameters (segments, endpoint, region) out of a URL; the rest is libpq's.

        Raises `OptionError`.
        """
        try:
            parts = urlsplit(url)
            given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
            own = {name: value for name, value in given if name in ("segments", "endpoint", "region")}
            segments = urlsplit(own.get("segments", ""))
        except ValueError as error:
            raise OptionError(f"the URL of the store does not read ({error}); write it as {EXAMPLE}") from error
        theirs = urlencode([(name, value) for name, value in given if name not in own], quote_via=quote)
        prefix = segments.path.strip("/")
        if segments.scheme != "s3" or not segments.netloc or segments.query or ".." in prefix.split("/"):
            raise OptionError(
                "the URL of the store does not say where its segments lie: segments=s3://bucket/prefix is missing or "
                f"not of that form; write it as {EXAMPLE}"
            )
        endpoint = own.get("endpoint", "")
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise OptionError(
                f"the endpoint of the object store, {endpoint!r}, is no http:// or https:// URL; give one"
            )
        return cls(
            conninfo=urlunsplit(("postgresql", parts.netloc, parts.path, theirs, "")),
            bucket=segments.netloc,
            prefix=prefix,
            endpoint=endpoint,
            region=own.get("region", ""),
        )

    @property
    def segments(self) -> str:
        """URL of the segments."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def hide(self, text: str) -> str:
        """A message about this home, on one line and without the password."""
        password = urlsplit(self.conninfo).password
        line = " ".join(text.split())
        return line.replace(password, "***") if password else line

    def __str__(self) -> str:
        """The URL without its password."""
        parts = urlsplit(self.conninfo)
        user, at, host = parts.netloc.rpartition("@")
        shown = f"{user.split(':')[0]}{at}{host}"
        query = f"segments={self.segments}" + (f"&endpoint={self.endpoint}" if self.endpoint else "")
        return urlunsplit((parts.scheme, shown, parts.path, query, ""))


Home = Path | SharedHome


def parse_home(text: str) -> Home:
    """A home from the text of a setting. Raises `OptionError`."""
    scheme = text.partition("://")[0] if "://" in text else ""
    if scheme in SCHEMES:
        return SharedHome.parse(text)
    if scheme:
        raise OptionError(f"a store at {scheme}:// is not known; give a directory, or {EXAMPLE}")
    return Path(text)
