"""What a store promises to the rest of the project. `directory.py` keeps the promise with SQLite and safetensors."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from v14.store.changes import Changes
from v14.types import Event, Link, Trace


@dataclass(frozen=True, kw_only=True)
class StoreStats:
    """Sizes of the store. Bytes are bytes of segment files on disk; `num_pending` events await their commit."""

    num_events: int
    num_tokens: int
    num_bytes: int
    num_pending: int
    num_failed_writes: int
    num_corrupt: int


class Store(Protocol):
    """Events and their traces of one set of weights.

    Everything `put` is visible to every other call at once (from memory until it is committed). A namespace is
    named in every call that reads; an id of another namespace is not found. Safe to call from several threads.
    """

    def put(self, events: Sequence[tuple[Event, Trace]]) -> None:
        """Queue events for the background writer and return. Known ids of the namespace only renew `said_at`."""

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until what was put before is committed or has failed; False when the time ran out."""

    def namespaces(self) -> Mapping[str, int]:
        """Number of events by namespace."""

    def events(self, namespace: str) -> Sequence[Event]:
        """All events of a namespace, by `said_at`."""

    def changes(self, namespace: str, since: int) -> Changes:
        """What changed in a namespace since number `since`, that of an earlier call, by whomever; 0 is everything.

        Quick where nothing changed: asked before every recall.
        """

    def get(self, namespace: str, ids: Sequence[str]) -> Sequence[Event]:
        """Events by id, in the order asked; an unknown id raises `KeyError`."""

    def has(self, namespace: str, ids: Collection[str]) -> set[str]:
        """Those of `ids` that the namespace holds."""

    def trace(self, namespace: str, event_id: str) -> Trace:
        """The trace of an event. Raises `KeyError`, or `TraceCorruptError` after setting the event aside."""

    def keys_of_layers(self, namespace: str, event_id: str, slots: Sequence[int]) -> torch.Tensor:
        """Keys `[len(slots), T, H, D]` of some attention layers only, without reading the rest from disk."""

    def touch(self, namespace: str, ids: Sequence[str], recalled_at: float) -> None:
        """Note that events were recalled at a Unix time; like `put`, written in the background."""

    def link(self, namespace: str, links: Sequence[Link]) -> None:
        """Queue links for the background writer; of a link that is there, the larger weight counts.

        One with an end that the namespace does not hold is passed over. Links go with either of their events.
        """

    def unlink(self, namespace: str, links: Sequence[Link]) -> None:
        """Queue the removal of links, whatever their weights; unknown ones are passed over."""

    def links(self, namespace: str) -> Sequence[Link]:
        """All links of a namespace."""

    def stats(self) -> StoreStats:
        """Current sizes."""

    def close(self) -> None:
        """Commit what is pending and close."""
