"""An event as the catalog holds it, and the way there and back."""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from v14.errors import TraceCorruptError
from v14.store.pending import Key
from v14.store.spec import Part, Spec
from v14.types import Event


@dataclass(frozen=True, kw_only=True)
class Row:
    """Fields are the columns of the table `events`, in order.

    `token_ids` are little-endian int64, `shape` and `engram` are JSON (see `_engram_json`; `engram` is empty where none
    was kept), times are Unix seconds (`recalled_at` 0.0: never). `codec` says how the trace is written in its segment;
    empty is as it was computed.
    """

    namespace: str
    id: str
    parent: str
    chat_id: str
    role: str
    said_at: float
    token_ids: bytes
    num_tokens: int
    closing_len: int
    segment: str
    dtype: str
    shape: str
    digests: bytes
    stored_at: float
    recalled_at: float = 0.0
    corrupt: int = 0
    engram: str = ""
    codec: str = ""

    @classmethod
    def of(cls, event: Event, spec: Spec, segment: str, *, stored_at: float, recalled_at: float) -> "Row":
        """The row of an event whose trace lies in `segment`."""
        return cls(
            namespace=event.namespace,
            id=event.id,
            parent=event.parent,
            chat_id=event.chat_id,
            role=event.role,
            said_at=event.said_at,
            token_ids=struct.pack(f"<{event.num_tokens}q", *event.token_ids),
            num_tokens=event.num_tokens,
            closing_len=event.closing_len,
            segment=segment,
            dtype=spec.dtype,
            shape=json.dumps(spec.shape),
            digests=spec.digests,
            stored_at=stored_at,
            recalled_at=recalled_at,
            engram=_engram_json(spec.engram),
        )

    @property
    def key(self) -> Key:
        """(namespace, id)."""
        return self.namespace, self.id

    @property
    def spec(self) -> Spec:
        """What the trace must be. Raises `TraceCorruptError` where the row does not say it."""
        try:
            return Spec(
                dtype=self.dtype,
                shape=tuple(json.loads(self.shape)),
                digests=self.digests,
                engram=_engram_parts(self.engram),
            )
        except (ValueError, TypeError, AttributeError) as error:
            raise TraceCorruptError(f"the catalog does not say what the trace of {self.id} is ({error})") from error

    def event(self) -> Event:
        """The event; its id is derived again, and a row that does not match its id raises `ValueError`."""
        if len(self.token_ids) != 8 * self.num_tokens:
            raise ValueError(f"event {self.id} should have {self.num_tokens} tokens")
        return Event(
            namespace=self.namespace,
            chat_id=self.chat_id,
            role=self.role,
            said_at=self.said_at,
            token_ids=struct.unpack(f"<{self.num_tokens}q", self.token_ids),
            parent=self.parent,
            closing_len=self.closing_len,
            id=self.id,
        )


def _engram_json(parts: Mapping[str, Part] | None) -> str:
    """Field name to [dtype, shape, digest in hexadecimal]."""
    if parts is None:
        return ""
    return json.dumps({name: [part.dtype, part.shape, part.digest.hex()] for name, part in parts.items()})


def _engram_parts(text: str) -> Mapping[str, Part] | None:
    """The inverse of `_engram_json`."""
    if not text:
        return None
    return {
        name: Part(dtype=dtype, shape=tuple(shape), digest=bytes.fromhex(digest))
        for name, (dtype, shape, digest) in json.loads(text).items()
    }
