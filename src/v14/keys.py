"""The file that says which API key has which namespace: TOML or JSON, read once at start.

    [[keys]]
    sha256 = "…"              # of the key: printf %s "$KEY" | sha256sum
    namespace = "ann"         # read and written
    shared = ["handbook"]     # read only
    operator = false          # true: may look after every namespace

The keys themselves are nowhere in it.
"""

import json
import stat
import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from v14.errors import OptionError

MAX_NAMESPACE_CHARACTERS = 256


def is_name(text: str) -> bool:
    """Whether a text can be the name of a namespace."""
    return 0 < len(text) <= MAX_NAMESPACE_CHARACTERS and text.isprintable()


def _name(text: str) -> str:
    if not is_name(text) or "," in text:
        raise ValueError(f"a namespace is 1 to {MAX_NAMESPACE_CHARACTERS} printable characters without commas")
    return text


Name = Annotated[str, AfterValidator(_name)]


class Grant(BaseModel):
    """What one key grants."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    namespace: Name | None = None
    shared: tuple[Name, ...] = ()
    operator: bool = False

    @model_validator(mode="after")
    def _grants_something(self) -> "Grant":
        if self.namespace is None and not self.operator:
            raise ValueError("a key without a namespace needs operator = true")
        return self


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: tuple[Grant, ...] = Field(min_length=1)


def read_keys(path: Path, setting: str) -> dict[str, Grant]:
    """Grants by the SHA-256 of their keys. Raises `OptionError`, which names `setting` and what is wrong."""
    text = read_private(path, setting)
    try:
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        grants = _File.model_validate(data).keys
    except ValidationError as error:
        lines = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise OptionError(
            f"{setting}={path}: {lines}. Correct these entries; docs/security.md shows the form."
        ) from error
    except ValueError as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise OptionError(
            f"{setting}={path} is not {kind} ({error}); correct it, docs/security.md shows the form"
        ) from error
    found = {grant.sha256: grant for grant in grants}
    if len(found) < len(grants):
        raise OptionError(
            f"{setting}={path}: a key stands there twice, but one key has one namespace; remove one of the entries"
        )
    return found


def read_private(path: Path, setting: str) -> str:
    """The text of a file that decides who may read what. Raises `OptionError` where others may write to it."""
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{setting}={path} cannot be read ({error}); give a file that the server can read") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OptionError(f"{setting}={path} can be written by others; run chmod go-w {path}")
    return text
