"""A store without a disk that keeps no traces: events are voted on and read again, nothing of them is placed."""

import math
from collections.abc import Collection, Mapping, Sequence

import torch

from v14.store.audit import Record
from v14.store.changes import Changes
from v14.store.contract import StoreStats
from v14.store.policies import Policy
from v14.types import Event, Link, Trace


class VolatileStore:
    """See `v14.store.contract.Store`. Ten thousand events take megabytes here, their traces would take gigabytes."""

    num_readers = 1

    def __init__(self) -> None:
        self._spaces: dict[str, dict[str, Event]] = {}
        self._links: dict[tuple[str, str, str, str], Link] = {}

    def put(self, events: Sequence[tuple[Event, Trace]]) -> None:
        """Keep the events, drop the traces."""
        for event, _ in events:
            self._spaces.setdefault(event.namespace, {}).setdefault(event.id, event)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Nothing ever waits."""
        return True

    def namespaces(self) -> Mapping[str, int]:
        """Number of events by namespace."""
        return {name: len(space) for name, space in self._spaces.items()}

    def events(self, namespace: str) -> Sequence[Event]:
        """All events of a namespace, by `said_at`."""
        return sorted(self._spaces.get(namespace, {}).values(), key=lambda event: event.said_at)

    def changes(self, namespace: str, since: int) -> Changes:
        """Nothing is changed by anybody else: what is put here, a session adds to its index itself."""
        return Changes(number=1)

    def get(self, namespace: str, ids: Sequence[str]) -> Sequence[Event]:
        """Events by id."""
        return [self._spaces.get(namespace, {})[event_id] for event_id in ids]

    def has(self, namespace: str, ids: Collection[str]) -> set[str]:
        """Those of `ids` that are here."""
        return set(ids) & self._spaces.get(namespace, {}).keys()

    def trace(self, namespace: str, event_id: str) -> Trace:
        """Raises `KeyError`: there are no traces."""
        raise KeyError(f"no trace of {event_id} was kept")

    def keys_of_layers(self, namespace: str, event_id: str, slots: Sequence[int]) -> torch.Tensor:
        """Raises `KeyError`: there are no traces."""
        raise KeyError(f"no trace of {event_id} was kept")

    def touch(self, namespace: str, ids: Sequence[str], recalled_at: float) -> None:
        """Nothing expires here."""

    def link(self, namespace: str, links: Sequence[Link]) -> None:
        """Keep links between events that are here, the larger weight of two."""
        known = self._spaces.get(namespace, {}).keys()
        for link in links:
            key = (namespace, link.source, link.target, link.kind)
            if {link.source, link.target} <= known and (
                key not in self._links or self._links[key].weight < link.weight
            ):
                self._links[key] = link

    def unlink(self, namespace: str, links: Sequence[Link]) -> None:
        """Take links out."""
        for link in links:
            self._links.pop((namespace, link.source, link.target, link.kind), None)

    def links(self, namespace: str) -> Sequence[Link]:
        """All links of a namespace."""
        return [link for key, link in self._links.items() if key[0] == namespace]

    def select(
        self, namespace: str, *, chat_id: str | None = None, since: float = -math.inf, until: float = math.inf
    ) -> Sequence[str]:
        """Ids of events by chat and by when they were said."""
        events = self._spaces.get(namespace, {}).values()
        return [e.id for e in events if chat_id in (None, e.chat_id) and since <= e.said_at < until]

    def forget(self, namespace: str, ids: Collection[str], *, selection: str = "event", requested_by: str = "") -> int:
        """Drop events and their links; how many there were."""
        found = self.has(namespace, ids)
        for event_id in found:
            del self._spaces[namespace][event_id]
        self._links = {
            key: link
            for key, link in self._links.items()
            if key[0] != namespace or not {link.source, link.target} & found
        }
        return len(found)

    def policies(self) -> Mapping[str, Policy]:
        """Nothing expires here."""
        return {}

    def set_policy(self, namespace: str, policy: Policy) -> None:
        """Raises `NotImplementedError`: nothing expires here."""
        raise NotImplementedError("a store for a benchmark has no policies")

    def audit(self) -> Sequence[Record]:
        """Nothing is recorded."""
        return ()

    def stats(self) -> StoreStats:
        """Numbers of events and tokens; everything else is 0."""
        events = [event for space in self._spaces.values() for event in space.values()]
        num_tokens = sum(event.num_tokens for event in events)
        return StoreStats(
            num_events=len(events),
            num_tokens=num_tokens,
            num_bytes=0,
            num_pending=0,
            num_failed_writes=0,
            num_corrupt=0,
        )

    def close(self) -> None:
        """Nothing to commit."""


class KeepingStore(VolatileStore):
    """One that keeps the traces as well, for a few events."""

    def __init__(self) -> None:
        super().__init__()
        self._traces: dict[tuple[str, str], Trace] = {}

    def put(self, events: Sequence[tuple[Event, Trace]]) -> None:
        """Keep both."""
        super().put(events)
        self._traces |= {(event.namespace, event.id): trace for event, trace in events}

    def trace(self, namespace: str, event_id: str) -> Trace:
        """The trace of an event. Raises `KeyError` for one that is not here."""
        return self._traces[namespace, event_id]
