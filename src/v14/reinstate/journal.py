"""What the requests served lately recalled and wrote, so that it can be forgotten by naming a request.

Ids alone, in memory only: after a restart no request is known any more.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

MAX_REQUESTS = 20_000


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One request of `namespace`: the events that it was read behind, as (namespace, id), and those that it wrote."""

    namespace: str
    recalled: tuple[tuple[str, str], ...] = ()
    written: tuple[str, ...] = ()

    def of(self, namespace: str, *, recalled: bool = True, written: bool = True) -> list[str]:
        """Ids of the events of a namespace among what was recalled and written, each once."""
        ids = [event_id for held_by, event_id in self.recalled if recalled and held_by == namespace]
        return list(dict.fromkeys([*ids, *(self.written if written and namespace == self.namespace else ())]))


class Journal:
    """Entries by namespace and request id, which clients may choose. Safe to use from several threads."""

    def __init__(self, max_requests: int = MAX_REQUESTS) -> None:
        self._entries: OrderedDict[tuple[str, str], Entry] = OrderedDict()
        self._max_requests = max_requests
        self._lock = threading.Lock()

    def recalled(self, rid: str, namespace: str, events: Iterable[tuple[str, str]]) -> None:
        """A request of `namespace` is read behind `events`, given as (namespace, id)."""
        with self._lock:
            self._entries[namespace, rid] = Entry(namespace=namespace, recalled=tuple(events))
            self._entries.move_to_end((namespace, rid))
            while len(self._entries) > self._max_requests:
                self._entries.popitem(last=False)

    def wrote(self, rid: str, namespace: str, ids: Iterable[str]) -> None:
        """A request stored these events."""
        with self._lock:
            known = self._entries.get((namespace, rid))
            if known is not None:
                self._entries[namespace, rid] = Entry(namespace=namespace, recalled=known.recalled, written=tuple(ids))

    def entry(self, rid: str, namespace: str) -> Entry | None:
        """What is known of a request of a namespace."""
        with self._lock:
            return self._entries.get((namespace, rid))

    def forget(self, namespace: str, ids: Collection[str]) -> None:
        """Take events of a namespace out of all entries."""
        gone = set(ids)
        with self._lock:
            for key, entry in self._entries.items():
                if not gone.isdisjoint(entry.of(namespace)):
                    self._entries[key] = Entry(
                        namespace=entry.namespace,
                        recalled=tuple(held for held in entry.recalled if held[0] != namespace or held[1] not in gone),
                        written=tuple(i for i in entry.written if entry.namespace != namespace or i not in gone),
                    )
