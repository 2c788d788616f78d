"""Events as lines of a file: what an export writes and an import reads. One JSON object a line.

    {"id": …, "chat_id": …, "role": …, "said_at": …, "token_ids": […], "parent": …, "closing_len": …, "text": …}
    {"role": "user", "text": "My violin was built in Cremona.", "said_at": …, "chat_id": …}

The first is an event with the ids of its tokens, of a model with the same tokenizer. Its id is derived again, and its
text, where it is given, has to be what the ids say. The second is a turn in plain words: what is left out is filled in.
No line holds keys or values: the model reads everything again. A line's namespace counts for nothing.
"""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from v14.errors import EventFileError
from v14.keys import MAX_NAMESPACE_CHARACTERS
from v14.types import ROOT_ID, Event

MAX_BYTES = 64 << 20
MAX_LINE_BYTES = 64 << 10
MAX_LINES = 100_000
MAX_TEXT_CHARACTERS = 32_000


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A turn in plain words; `said_at` is in Unix seconds."""

    role: str
    text: str
    said_at: float
    chat_id: str = ""


def lines_of(data: bytes, *, max_lines: int = MAX_LINES) -> list[bytes]:
    """The lines of a file that are not empty. Raises `EventFileError` for one that is too large."""
    if len(data) > MAX_BYTES:
        raise EventFileError(f"a file of events has up to {MAX_BYTES >> 20} MiB; give it in several parts")
    lines = [line for line in data.split(b"\n") if line.strip()]
    if len(lines) > max_lines:
        raise EventFileError(
            f"a file of events has up to {max_lines} lines, not {len(lines)}; give it in several parts"
        )
    return lines


def read(
    lines: Iterable[bytes], *, namespace: str, roles: Iterable[str], vocab_size: int,
    decode: Callable[[Sequence[int]], str], now: float,
) -> list[Event | Plain]:  # fmt: skip
    """What the lines hold, as events of `namespace`. Raises `EventFileError`, which names the line.

    `roles` are those that the model's turns have, `decode` makes text of token ids, `now` counts for a turn without
    a time.
    """
    known = frozenset(roles)
    found: list[Event | Plain] = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_line(line, namespace, known, vocab_size, decode, now))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise EventFileError(
                f"line {number} is no event ({error}); give lines as `v14 event export` writes them (docs/clients.md)"
            ) from error
    return found


def _line(
    line: bytes, namespace: str, roles: frozenset[str], vocab_size: int, decode: Callable[[Sequence[int]], str],
    now: float,
) -> Event | Plain:  # fmt: skip
    """One line. Raises `ValueError` and its like."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"{len(line)} bytes, a line has up to {MAX_LINE_BYTES}")
    data = json.loads(line)
    if not isinstance(data, dict):
        raise ValueError("no JSON object")
    role, chat_id, said_at = _text(data, "role", "user"), _text(data, "chat_id", ""), _time(data.get("said_at", now))
    if role not in roles:
        raise ValueError(f"role {role!r} is none of {', '.join(sorted(roles))}")
    if len(chat_id) > MAX_NAMESPACE_CHARACTERS or not (chat_id.isprintable() and chat_id.isascii()):
        raise ValueError(f"chat_id is up to {MAX_NAMESPACE_CHARACTERS} printable ASCII characters")
    if "token_ids" not in data:
        text = _text(data, "text")
        if not text.strip() or len(text) > MAX_TEXT_CHARACTERS:
            raise ValueError(f"a text has 1 to {MAX_TEXT_CHARACTERS} characters")
        text.encode()
        return Plain(role=role, text=text, said_at=said_at, chat_id=chat_id)
    ids = data["token_ids"]
    if not isinstance(ids, list) or not all(type(token) is int and 0 <= token < vocab_size for token in ids):
        raise ValueError(f"token_ids are integers from 0 to {vocab_size - 1}")
    closing_len = data.get("closing_len", 0)
    if type(closing_len) is not int:
        raise ValueError("closing_len is an integer")
    event = Event(
        namespace=namespace,
        chat_id=chat_id,
        role=role,
        said_at=said_at,
        token_ids=tuple(ids),
        parent=_id(_text(data, "parent", ROOT_ID)),
        closing_len=closing_len,
        id=_text(data, "id", ""),
    )
    if "text" in data and decode(event.token_ids) != data["text"]:
        raise ValueError(
            "its token ids are another text with this model: it was exported from one with another tokenizer"
        )
    return event if event.chat_id else replace(event, chat_id=event.id)


def _text(data: dict[str, Any], name: str, default: str | None = None) -> str:
    value = data.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"{name} is a text")
    return value


def _time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError("said_at is a time in Unix seconds")
    return float(value)


def _id(value: str) -> str:
    digits = value.removeprefix("sha256:")
    if len(value) != len(ROOT_ID) or len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise ValueError("parent is an id of an event")
    return value
