"""What was put and is not committed yet: the part of the store that lives in memory. Guarded by the writer's lock."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from v14.store.links import LinkChange, LinkKey, change_link
from v14.types import Event, Trace

Key = tuple[str, str]
"""(namespace, event id)."""

NEVER = 0.0


@dataclass(frozen=True, kw_only=True)
class Renewal:
    """Times to raise in a committed row, and the number of the first call that asked. Unix seconds."""

    number: int
    said_at: float = -math.inf
    recalled_at: float = NEVER

    def later(self, said_at: float, recalled_at: float) -> "Renewal":
        """This renewal with both times raised."""
        return replace(self, said_at=max(self.said_at, said_at), recalled_at=max(self.recalled_at, recalled_at))


@dataclass(frozen=True, kw_only=True, eq=False)
class Waiting:
    """An event whose commit is still to come, and the number of the `put` that brought it."""

    number: int
    event: Event
    trace: Trace
    recalled_at: float = NEVER


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one commit writes."""

    events: Mapping[Key, Waiting]
    renewals: Mapping[Key, Renewal]
    links: Mapping[LinkKey, LinkChange]


@dataclass
class Pending:
    """What waits, in the order of the calls. Entries are replaced, never changed: a batch stays as taken."""

    events: dict[Key, Waiting] = field(default_factory=dict)
    renewals: dict[Key, Renewal] = field(default_factory=dict)
    links: dict[LinkKey, LinkChange] = field(default_factory=dict)
    num_bytes: int = 0
    last_number: int = 0

    def add(self, event: Event, trace: Trace) -> None:
        """Queue an event that is neither pending nor committed."""
        self.last_number += 1
        self.events[event.namespace, event.id] = Waiting(number=self.last_number, event=event, trace=trace)
        self.num_bytes += trace.num_bytes

    def renew(self, key: Key, *, said_at: float = -math.inf, recalled_at: float = NEVER) -> None:
        """Raise the times of a pending event at once, or queue that for a committed one."""
        self.last_number += 1
        waiting = self.events.get(key)
        if waiting is not None:
            event = replace(waiting.event, said_at=max(waiting.event.said_at, said_at))
            self.events[key] = replace(waiting, event=event, recalled_at=max(waiting.recalled_at, recalled_at))
        else:
            renewal = self.renewals.get(key) or Renewal(number=self.last_number)
            self.renewals[key] = renewal.later(said_at, recalled_at)

    def link(self, key: LinkKey, weight: float | None) -> None:
        """Queue a link, or its removal where the weight is None."""
        self.last_number += 1
        self.links[key] = change_link(self.links.get(key), self.last_number, weight)

    def take(self, max_bytes: int) -> Batch:
        """All renewals, the oldest events, up to `max_bytes` of traces but at least one, and links.

        A link is written only with or behind both its events. Removes nothing.
        """
        events: dict[Key, Waiting] = {}
        num_bytes = 0
        for key, waiting in self.events.items():
            num_bytes += waiting.trace.num_bytes
            if events and num_bytes > max_bytes:
                break
            events[key] = waiting
        later = self.events.keys() - events.keys()
        links = {key: change for key, change in self.links.items() if later.isdisjoint(_ends(key))}
        return Batch(events=events, renewals=dict(self.renewals), links=links)

    def settle(self, batch: Batch) -> None:
        """Forget what a batch committed; what was renewed after it was taken stays, as a renewal."""
        for key, renewal in batch.renewals.items():
            if self.renewals.get(key) is renewal:
                del self.renewals[key]
        for link, change in batch.links.items():
            if self.links.get(link) is change:
                del self.links[link]
        for key, written in batch.events.items():
            waiting = self._remove(key)
            if waiting is not None and waiting is not written:
                renewal = Renewal(number=waiting.number)
                self.renewals[key] = renewal.later(waiting.event.said_at, waiting.recalled_at)

    def forget(self, keys: Collection[Key]) -> list[Event]:
        """Drop the events, renewals and links of `keys`; the events that were pending."""
        self.renewals = {key: renewal for key, renewal in self.renewals.items() if key not in keys}
        self.links = {key: change for key, change in self.links.items() if not any(end in keys for end in _ends(key))}
        removed = [self._remove(key) for key in keys]
        return [waiting.event for waiting in removed if waiting is not None]

    def drop(self, max_bytes: int) -> int:
        """Forget the oldest events until at most `max_bytes` of traces are left; how many were lost."""
        num_lost = 0
        while self.num_bytes > max_bytes and self.events:
            self._remove(next(iter(self.events)))
            num_lost += 1
        return num_lost

    def settled(self, number: int) -> bool:
        """Whether nothing is left of the calls up to `number`."""
        queues: tuple[Mapping[Any, Waiting | Renewal | LinkChange], ...] = (self.events, self.renewals, self.links)
        return all(next(iter(queue.values())).number > number for queue in queues if queue)

    def _remove(self, key: Key) -> Waiting | None:
        waiting = self.events.pop(key, None)
        if waiting is not None:
            self.num_bytes -= waiting.trace.num_bytes
        return waiting


def _ends(key: LinkKey) -> tuple[Key, Key]:
    namespace, source, target, _ = key
    return (namespace, source), (namespace, target)
