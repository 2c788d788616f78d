"""What the HTTP process tells the scheduler about one request, carried in SGLang's own `custom_params`.

The values there have to be scalars, so a ticket travels as one JSON string. A client cannot send one: the front
removes whatever stands under the key in a request that arrives.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from v14.config import Mode
from v14.events.cut import Cut
from v14.types import Event

KEY = "v14"
"""Key of the ticket in `custom_params`, and of the memory's report in `meta_info` and reply metadata."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """An event that stands at `start` in a request's token ids and was said before: see `v14.types.Event`."""

    start: int
    num_tokens: int
    chat_id: str
    role: str
    said_at: float
    parent: str
    closing_len: int = 0


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """Whose memory a request has, and what it does with it.

    `namespace` is read and written, `shared` are read besides; `max_new_tokens` bounds what the context has room for.
    `told` are the events to be stored of a request that reads what was exported; of others they are found by cutting.
    """

    namespace: str
    mode: Mode
    shared: tuple[str, ...] = ()
    chat_id: str = ""
    max_new_tokens: int = 0
    told: tuple[Told, ...] = ()

    @property
    def reads(self) -> bool:
        """Whether the request may recall."""
        return self.mode in ("read", "both")

    @property
    def writes(self) -> bool:
        """Whether the request is remembered."""
        return self.mode in ("write", "both")

    def cuts(self, token_ids: Sequence[int]) -> list[Cut]:
        """The events that `told` says stand in these token ids, in order."""
        return [
            Cut(
                event=Event(
                    namespace=self.namespace,
                    chat_id=told.chat_id,
                    role=told.role,
                    said_at=told.said_at,
                    token_ids=tuple(token_ids[told.start : told.start + told.num_tokens]),
                    parent=told.parent,
                    closing_len=told.closing_len,
                ),
                start=told.start,
                end=told.start + told.num_tokens,
            )
            for told in self.told
        ]

    def dump(self) -> str:
        """As a JSON string."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "Ticket":
        """The inverse of `dump`. Raises `ValueError` for a text that `dump` did not write."""
        return _TICKET.validate_json(text, strict=True)

    @classmethod
    def of(cls, custom_params: Mapping[str, Any] | None) -> "Ticket | None":
        """The ticket in a request's `custom_params`, if there is one."""
        text = (custom_params or {}).get(KEY)
        return cls.load(text) if isinstance(text, str) else None


_TICKET = TypeAdapter(Ticket)


def radix_key(namespace: str, mode: Mode, extra_key: str | None) -> str:
    """The radix cache's extra key: namespaces never share KV, and KV read with memory never serves one without.

    The namespace is length-prefixed, so that no namespace and client key together read as another pair.
    """
    kind = "plain" if mode == "off" else "memory"
    return f"v14:{kind}:{len(namespace)}:{namespace}:{extra_key or ''}"
