"""A store without a disk that keeps no traces: events are voted on and read again, nothing of them is placed."""

from collections.abc import Collection, Mapping, Sequence

import torch

from v14.store.contract import StoreStats
from v14.types import Event, Trace


class VolatileStore:
    """See `v14.store.contract.Store`. Ten thousand events take megabytes here, their traces would take gigabytes."""

    def __init__(self) -> None:
        self._spaces: dict[str, dict[str, Event]] = {}

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
