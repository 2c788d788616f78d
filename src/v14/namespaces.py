"""Whose memory a request has: the one place that says so.

    open      whoever names a namespace has it: the header, else the `user` field, else "default"
    keyed     the API key has it: a file maps the SHA-256 of keys to namespaces (`v14.keys`)
    required  a trusted proxy names it in the header, and shows by a secret that it is the proxy

What a request says about itself counts in `open` alone. Elsewhere a header that asks for more than was granted is
refused, and the `user` field, which OpenAI clients fill for purposes of their own, is no namespace at all. Whatever
reads or writes a memory gets an `Access` from here, or a `RefusedError` whose status an HTTP server can answer with.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from v14.config import ENV_PREFIX, Policy, Switches
from v14.errors import OptionError, RefusedError
from v14.keys import Grant, is_name, read_keys, read_private

DEFAULT_NAMESPACE = "default"
KEY_HEADER = "x-v14-key"
SHARED_HEADER = "x-v14-shared"
SECRET_HEADER = "x-v14-proxy-secret"
MIN_SECRET_CHARACTERS = 16


@dataclass(frozen=True, kw_only=True)
class Access:
    """What a request may see and change: it writes to `namespace` alone, and reads `shared` besides.

    An operator's key that has no namespace of its own has None there; it can look after all of them, not be served.
    """

    namespace: str | None
    shared: tuple[str, ...] = ()
    operator: bool = False

    @property
    def own(self) -> str:
        """The namespace that is written to. Raises `RefusedError` where there is none."""
        if self.namespace is None:
            raise RefusedError("this key has rights but no namespace: name one in the namespace header", 403)
        return self.namespace

    def may_read(self, namespace: str) -> bool:
        """Whether the events of a namespace may be shown."""
        return self.operator or namespace == self.namespace or namespace in self.shared

    def may_forget(self, namespace: str) -> bool:
        """Whether the events of a namespace may be forgotten."""
        return self.operator or namespace == self.namespace


class Namespaces:
    """The rule of one server."""

    def __init__(
        self, policy: Policy = "open", *, header: str = "x-v14-namespace", keys: Mapping[str, Grant] | None = None,
        secret: bytes = b"",
    ) -> None:  # fmt: skip
        """`keys` maps the SHA-256 of a key, in hexadecimal, to what it grants; `secret` is the proxy's."""
        self.policy, self.header = policy, header
        self._keys = dict(keys or {})
        self._secret = secret

    @classmethod
    def open(cls, switches: Switches) -> "Namespaces":
        """Read the files that the switches name. Raises `OptionError` for what is missing or cannot work."""
        policy = switches.namespaces
        if policy == "keyed" and switches.keys is None:
            raise OptionError(f"{ENV_PREFIX}NAMESPACES=keyed needs {ENV_PREFIX}KEYS, the file that maps keys")
        if policy == "required" and switches.proxy_secret is None:
            raise OptionError(
                f"{ENV_PREFIX}NAMESPACES=required needs {ENV_PREFIX}PROXY_SECRET, a file with the secret that the "
                f"proxy sends in {SECRET_HEADER}"
            )
        if policy != "required" and switches.proxy_secret is not None:
            raise OptionError(f"{ENV_PREFIX}PROXY_SECRET works with {ENV_PREFIX}NAMESPACES=required only; unset it")
        keys = {} if switches.keys is None else read_keys(switches.keys, f"{ENV_PREFIX}KEYS")
        secret = b"" if switches.proxy_secret is None else _read_secret(switches.proxy_secret)
        return cls(policy, header=switches.namespace_header, keys=keys, secret=secret)

    def access(self, headers: Mapping[str, str], user: str | None = None) -> Access:
        """What a request with these headers (names in lower case) may do. Raises `RefusedError`.

        `user` is the OpenAI field of that name.
        """
        named = headers.get(self.header) or None
        shared = _names(headers.get(SHARED_HEADER, ""))
        for name in (named, *shared):
            if name is not None and not is_name(name):
                raise RefusedError(
                    f"{self.header}, {SHARED_HEADER}: a namespace is 1 to 256 printable characters; name one", 400
                )
        grant = self._grant(headers)
        if self.policy == "keyed":
            if grant is None:
                raise RefusedError(
                    f"an API key is needed (Authorization: Bearer …, or {KEY_HEADER}), and this server knows it by "
                    f"{ENV_PREFIX}KEYS",
                    401,
                )
            return _granted(grant, named, shared, self.header)
        if self.policy == "required" and not (grant is not None and grant.operator):
            self._check_proxy(headers, named)
        elif named is None and self.policy == "open":
            named = user or (DEFAULT_NAMESPACE if grant is None else grant.namespace)
            if named is not None and not is_name(named):
                raise RefusedError("the `user` field names the namespace; give 1 to 256 printable characters", 400)
        return Access(namespace=named, shared=_others(shared, named), operator=grant is not None and grant.operator)

    def _grant(self, headers: Mapping[str, str]) -> Grant | None:
        """What the request's key grants. `KEY_HEADER` goes first: SGLang's own --api-key takes the other one."""
        key = headers.get(KEY_HEADER) or _bearer(headers.get("authorization", ""))
        return self._keys.get(hashlib.sha256(key.encode()).hexdigest()) if key else None

    def _check_proxy(self, headers: Mapping[str, str], named: str | None) -> None:
        if not hmac.compare_digest(headers.get(SECRET_HEADER, "").encode(), self._secret):
            raise RefusedError(
                f"only the proxy may ask: {SECRET_HEADER} is missing or wrong; send what {ENV_PREFIX}PROXY_SECRET is",
                401,
            )
        if named is None:
            raise RefusedError(f"the proxy named no namespace: {self.header} is missing; let the proxy set it", 403)


def _granted(grant: Grant, named: str | None, shared: tuple[str, ...], header: str) -> Access:
    """What a key grants, or the part of it that was asked for."""
    access = Access(namespace=grant.namespace, shared=grant.shared, operator=grant.operator)
    if named is not None and named != grant.namespace:
        if not grant.operator:
            raise RefusedError(f"{header}: this key has another namespace; leave the header out", 403)
        access = replace(access, namespace=named)
    if shared:
        if not grant.operator and not set(shared) <= set(grant.shared):
            raise RefusedError(
                f"{SHARED_HEADER}: this key does not read all of these namespaces; leave out those not given to it",
                403,
            )
        access = replace(access, shared=shared)
    return replace(access, shared=_others(access.shared, access.namespace))


def _others(shared: tuple[str, ...], own: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in shared if name != own))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _bearer(authorization: str) -> str:
    scheme, _, key = authorization.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _read_secret(path: Path) -> bytes:
    setting = f"{ENV_PREFIX}PROXY_SECRET"
    secret = read_private(path, setting).strip()
    if len(secret) < MIN_SECRET_CHARACTERS:
        raise OptionError(
            f"{setting}={path}: the secret has fewer than {MIN_SECRET_CHARACTERS} characters; write a longer one"
        )
    return secret.encode()
