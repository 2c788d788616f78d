"""What a store promises to the rest of the project. `directory.py` keeps the promise with SQLite and safetensors."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from v14.store.audit import Record
from v14.store.changes import Changes
from v14.store.glance import Glance
from v14.store.policies import Policy
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

    @property
    def num_readers(self) -> int:
        """How many reads of traces are worth doing side by side: 1 where they wait for nothing but a local disk."""

    def put(self, events: Sequence[tuple[Event, Trace]]) -> None:
        """Queue events for the background writer and return. Known ids of the namespace only renew `said_at`."""

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until what was put before is committed or has failed; False when the time ran out."""

    def namespaces(self) -> Mapping[str, int]:
        """Number of events by namespace."""

    def events(self, namespace: str) -> Sequence[Event]:
        """All events of a namespace, by `said_at`."""

    def glances(self, namespace: str) -> Sequence[Glance]:
        """What is known of the events of a namespace without reading tokens or traces, in the order of `events`."""

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

    def select(
        self, namespace: str, *, chat_id: str | None = None, since: float = -math.inf, until: float = math.inf
    ) -> Sequence[str]:
        """Ids of events by chat and by when they were last said, in [since, until); also of those set aside."""

    def forget(self, namespace: str, ids: Collection[str], *, selection: str = "event", requested_by: str = "") -> int:
        """Erase events with their links and traces from memory and every file; how many there were. Durable on return.

        Unknown ids are passed over, events set aside are not. `selection` (the kind of it) and `requested_by` go into
        the audit. Raises `StoreError`: nothing is erased, or it says what is left to be removed in the background.
        """

    def policies(self) -> Mapping[str, Policy]:
        """What was decided about namespaces; most have no policy."""

    def set_policy(self, namespace: str, policy: Policy) -> None:
        """Replace the policy of a namespace, durably. An event that is over by it is at once not there for any call."""

    def audit(self) -> Sequence[Record]:
        """What was forgotten, expired, evicted or imported, oldest first."""

    def note_import(self, namespace: str, num_events: int, num_tokens: int, requested_by: str = "") -> None:
        """Append to the audit that so much was imported, durably. Raises `StoreError`."""

    def stats(self) -> StoreStats:
        """Current sizes."""

    def close(self) -> None:
        """Commit what is pending and close."""
