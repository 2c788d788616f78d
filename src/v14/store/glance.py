"""What the catalog says of events without their tokens and traces: enough to list, count and weigh a namespace.

Ten thousand events are looked at for one page of a list, while requests wait: plain tuples, and what many rows say
alike is worked out once.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from v14.codecs.form import Form
from v14.errors import StoreKeyError, TraceCorruptError
from v14.store.packing import row_sizes
from v14.store.pending import Renewal, Waiting
from v14.store.row import Row, opened_chat
from v14.store.vault import Vault


class GlanceRow(NamedTuple):
    """Columns of the table `events`, in order; the chat's id is sealed where `codec` says so."""

    id: str
    chat_id: str
    role: str
    said_at: float
    recalled_at: float
    num_tokens: int
    dtype: str
    shape: str
    engram: str
    codec: str


GLANCED = GlanceRow._fields


class Glance(NamedTuple):
    """One event. Times are Unix seconds, `recalled_at` 0.0 is never; `num_bytes` are those of its trace on disk, in the
    form that `form` says (`v14.codecs.form`), or of its trace in memory while it awaits its commit."""

    id: str
    chat_id: str
    role: str
    said_at: float
    recalled_at: float
    num_tokens: int
    num_bytes: int
    form: str


def glances(namespace: str, rows: Iterable[GlanceRow], vault: Vault | None) -> Iterator[Glance]:
    """Of the rows of a namespace; what is damaged or cannot be decrypted is passed over."""
    sizes: dict[tuple[str, str, str, str], tuple[int, bool]] = {}
    for event_id, chat_id, role, said_at, recalled_at, num_tokens, dtype, shape, engram, codec in rows:
        key = dtype, shape, engram, codec
        try:
            if key not in sizes:
                sizes[key] = _size(*key)
            num_bytes, is_sealed = sizes[key]
            if is_sealed:
                chat_id = opened_chat(vault, (namespace, event_id), chat_id)
        except (StoreKeyError, TraceCorruptError):
            continue
        yield Glance(event_id, chat_id, role, said_at, recalled_at, num_tokens, num_bytes, codec)


def awaited(entry: Waiting) -> Glance:
    """Of an event that awaits its commit."""
    event, num_bytes = entry.event, entry.trace.num_bytes
    return Glance(
        event.id, event.chat_id, event.role, event.said_at, entry.recalled_at, event.num_tokens, num_bytes, ""
    )


def renewed_glance(glance: Glance, renewal: Renewal | None) -> Glance:
    """With the times that still await their commit."""
    if renewal is None:
        return glance
    return glance._replace(
        said_at=max(glance.said_at, renewal.said_at), recalled_at=max(glance.recalled_at, renewal.recalled_at)
    )


def _size(dtype: str, shape: str, engram: str, codec: str) -> tuple[int, bool]:
    """Bytes of a trace on disk, and whether its row is sealed. Raises `TraceCorruptError`."""
    row = Row(
        namespace="", id="", parent="", chat_id="", role="", said_at=0.0, token_ids=b"", num_tokens=0, closing_len=0,
        segment="", dtype=dtype, shape=shape, digests=b"", stored_at=0.0, engram=engram, codec=codec,
    )  # fmt: skip
    return sum(map(sum, row_sizes(row.spec).values())), Form.parse(codec).sealed
