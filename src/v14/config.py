"""Options of a V14 directory and the environment switches: read once, unknown or bad values are errors."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from v14.errors import OptionError
from v14.home import Home, parse_home
from v14.types import MAX_EVENT_TOKENS

CONFIG_KEY = "v14"
"""Key of the options in a V14 directory's `config.json`."""

ENV_PREFIX = "SGLANG_V14_"

Mode = Literal["off", "read", "write", "both"]
"""What one request does with the memory."""

Codec = Literal["native", "int8", "int4"]
"""How keys and values lie in the store: as computed, or in so many bits (`v14.codecs`)."""

Sync = Literal["always", "batch", "off"]
"""When what is stored is safe from a power cut (`v14.store.keeping`)."""

Policy = Literal["open", "keyed", "required"]
"""Who says which namespace a request has (`v14.namespaces`)."""


class Options(BaseModel):
    """Memory options of a V14 directory (`config.json`, key `v14`).

    Thresholds are in units of a vote (`v14.recall.votes`); sizes are in tokens.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    event_tokens: int = Field(MAX_EVENT_TOKENS, ge=1, le=MAX_EVENT_TOKENS, description="longest event that is cut")
    write_generated: bool = Field(False, description="store what the model wrote, not only what it read")
    cue_tokens: int = Field(128, ge=1, description="how many of a prompt's last tokens ask for a recall")
    recall_floor: float = Field(description="lowest vote that recalls an event")
    recall_ratio: float = Field(0.3, ge=0, le=1, description="lowest odds as a share of the request's best ones")
    recall_sure: float = Field(
        0.0, description="how much surer than calibrated a plan has to be, in log odds; below 0 more is recalled"
    )
    recall_linked: float = Field(
        2.25,
        ge=0,
        description="least strength by which an event leads to another: their common names, and what it adds",
    )
    recall_superseded: float = Field(
        0.6, ge=0, description="least score of a correction that keeps what it corrects out of plans; over 1 for none"
    )
    recall_max_events: int = Field(3, ge=1, description="most events recalled for one request")
    recall_max_linked: int = Field(2, ge=0, description="most events recalled because others lead to them; 0 for none")
    recall_budget_tokens: int = Field(512, ge=1, description="most tokens recalled for one request")
    reinstate: Literal["kv", "reread", "auto"] = Field(
        "kv", description="place the stored trace, read its tokens again, or whichever was measured to cost less"
    )
    engram_rank: int = Field(
        0, ge=0, le=MAX_EVENT_TOKENS, description="rank kept of an event's effect on recurrent states; 0 keeps none"
    )
    trace: Literal["full", "voters"] = Field(
        "full",
        description="what is stored of an event's trace: all, or the keys that votes read",
    )
    trace_codec: Codec = Field("native", description="form of stored keys and values: native, int8 or int4")
    idle_trace_codec: Codec = Field("native", description="form of those that nobody asked for in idle_days")
    idle_days: float = Field(7.0, gt=0, description="days after which an event that was not said or recalled is idle")
    recall_while_decoding: bool = Field(
        False,
        description="look for what to recall again while a reply is written: after 32 tokens, then 64, 128, … more",
    )

    @model_validator(mode="after")
    def _voters_are_read_again(self) -> "Options":
        if self.trace == "voters" and self.reinstate != "reread":
            raise ValueError(
                f"trace 'voters' keeps nothing that reinstate {self.reinstate!r} could place; write reinstate 'reread' "
                "or trace 'full'"
            )
        return self

    @classmethod
    def parse(cls, data: Mapping[str, Any], source: str) -> "Options":
        """Options from plain values; `source` names the file in the error that a bad value raises."""
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            lines = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise OptionError(
                f"{source}, key {CONFIG_KEY!r}: {lines}. Correct the value or run `v14 upgrade` again."
            ) from error


@dataclass(frozen=True, kw_only=True)
class Switches:
    """The environment: every `SGLANG_V14_*` variable there is."""

    memory: bool = True
    memory_home: Home = Path("/memory")
    max_buffer_gb: float = 24.0
    profile: bool = False
    trace: bool = False
    namespaces: Policy = "open"
    keys: Path | None = None
    namespace_header: str = "x-v14-namespace"
    proxy_secret: Path | None = None
    max_store_gb: float | None = None
    fsync: Sync = "always"
    key: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    key_command: str | None = None

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> "Switches":
        """Parse the environment; an unknown `SGLANG_V14_*` name or a bad value is an `OptionError`."""
        known = {
            "MEMORY": ("memory", _flag),
            "MEMORY_HOME": ("memory_home", _home),
            "MAX_BUFFER_GB": ("max_buffer_gb", _positive),
            "PROFILE": ("profile", _flag),
            "TRACE": ("trace", _flag),
            "NAMESPACES": ("namespaces", _policy),
            "KEYS": ("keys", _file),
            "NAMESPACE_HEADER": ("namespace_header", _header),
            "PROXY_SECRET": ("proxy_secret", _file),
            "MAX_STORE_GB": ("max_store_gb", _positive),
            "FSYNC": ("fsync", _sync),
            "KEY": ("key", _text),
            "KEY_FILE": ("key_file", _path),
            "KEY_COMMAND": ("key_command", _text),
        }
        values: dict[str, Any] = {}
        for name, text in environ.items():
            if not name.startswith(ENV_PREFIX):
                continue
            if name.removeprefix(ENV_PREFIX) not in known:
                names = ", ".join(ENV_PREFIX + key for key in known)
                raise OptionError(f"unknown environment variable {name}; the memory knows {names}. Unset it.")
            name_here, parse = known[name.removeprefix(ENV_PREFIX)]
            values[name_here] = parse(name, text)
        keys = [ENV_PREFIX + name.upper() for name in ("key", "key_file", "key_command") if name in values]
        if len(keys) > 1:
            raise OptionError(f"{' and '.join(keys)} are set; the store has one key, unset the others")
        return cls(**values)


def _flag(name: str, text: str) -> bool:
    if text not in ("0", "1"):
        raise OptionError(f"{name}={text!r} is neither 0 nor 1; give one of them or unset it")
    return text == "1"


def _home(name: str, text: str) -> Home:
    if not text:
        raise OptionError(f"{name} is empty; give the directory of the store or unset it")
    try:
        return parse_home(text)
    except OptionError as error:
        raise OptionError(f"{name}: {error}") from error


def _path(name: str, text: str) -> Path:
    return Path(_text(name, text))


def _text(name: str, text: str) -> str:
    if not text:
        raise OptionError(f"{name} is empty; give it a value or unset it")
    return text


def _policy(name: str, text: str) -> Policy:
    if text not in get_args(Policy):
        raise OptionError(f"{name}={text!r} is none of {', '.join(get_args(Policy))}")
    return cast(Policy, text)


def _sync(name: str, text: str) -> Sync:
    if text not in get_args(Sync):
        raise OptionError(f"{name}={text!r} is none of {', '.join(get_args(Sync))}")
    return cast(Sync, text)


def _file(name: str, text: str) -> Path | None:
    return Path(text) if text else None


def _header(name: str, text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]+", text):
        raise OptionError(f"{name}={text!r} is no name of a header; give letters, digits and hyphens, or unset it")
    return text.lower()


def _positive(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise OptionError(f"{name}={text!r} is not a number of gigabytes above 0; give one or unset it")
    return value
