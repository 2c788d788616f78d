"""What the catalog says of events without their tokens and traces: enough to list, count and weigh a namespace."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from v14.errors import StoreKeyError, TraceCorruptError
from v14.store.packing import row_sizes
from v14.store.pending import Renewal, Waiting
from v14.store.row import Row
from v14.store.vault import Vault

LEFT_OUT = frozenset({"token_ids", "digests"})
"""Columns that are long and not looked at: rows read for a glance have no bytes there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Glance:
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


def glances(rows: Iterable[Row], vault: Vault | None) -> Iterator[Glance]:
    """Of rows, which need not have what is `LEFT_OUT`; what is damaged or cannot be decrypted is passed over."""
    sizes: dict[tuple[str, ...], int] = {}
    for row in rows:
        said = row.dtype, row.shape, row.engram, row.codec
        try:
            if said not in sizes:
                sizes[said] = sum(map(sum, row_sizes(row.spec).values()))
            chat_id = row.chat(vault)
        except (StoreKeyError, TraceCorruptError):
            continue
        yield Glance(
            id=row.id,
            chat_id=chat_id,
            role=row.role,
            said_at=row.said_at,
            recalled_at=row.recalled_at,
            num_tokens=row.num_tokens,
            num_bytes=sizes[said],
            form=row.codec,
        )


def awaited(entry: Waiting) -> Glance:
    """Of an event that awaits its commit."""
    event = entry.event
    return Glance(
        id=event.id,
        chat_id=event.chat_id,
        role=event.role,
        said_at=event.said_at,
        recalled_at=entry.recalled_at,
        num_tokens=event.num_tokens,
        num_bytes=entry.trace.num_bytes,
        form="",
    )


def renewed_glance(glance: Glance, renewal: Renewal | None) -> Glance:
    """With the times that still await their commit."""
    if renewal is None:
        return glance
    times = {name: max(getattr(glance, name), getattr(renewal, name)) for name in ("said_at", "recalled_at")}
    return replace(glance, **times)
