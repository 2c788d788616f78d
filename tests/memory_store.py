"""A store that keeps everything in a dictionary: the contract of `v14.store.contract` without a disk."""

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import replace

import torch

from v14.store.audit import Record
from v14.store.changes import Changes
from v14.store.contract import StoreStats
from v14.store.glance import Glance
from v14.store.policies import Policy
from v14.types import Event, Link, Trace


class MemoryStore:
    """See `v14.store.contract.Store`."""

    num_readers = 1

    def __init__(self) -> None:
        self._spaces: dict[str, dict[str, tuple[Event, Trace]]] = {}
        self._links: dict[tuple[str, str, str, str], Link] = {}
        self._policies: dict[str, Policy] = {}
        self.forgotten: list[tuple[str, str, str, int]] = []
        self.touched: list[str] = []
        self.recalled: dict[str, float] = {}

    def put(self, events: Sequence[tuple[Event, Trace]]) -> None:
        for event, trace in events:
            space = self._spaces.setdefault(event.namespace, {})
            if event.id in space:
                known, trace = space[event.id]
                event = replace(known, said_at=event.said_at)
            space[event.id] = (event, trace)

    def flush(self, timeout_s: float | None = None) -> bool:
        return True

    def namespaces(self) -> dict[str, int]:
        return {name: len(space) for name, space in self._spaces.items()}

    def events(self, namespace: str) -> list[Event]:
        return sorted((event for event, _ in self._spaces.get(namespace, {}).values()), key=lambda e: e.said_at)

    def glances(self, namespace: str) -> list[Glance]:
        return [
            Glance(
                id=event.id,
                chat_id=event.chat_id,
                role=event.role,
                said_at=event.said_at,
                recalled_at=self.recalled.get(event.id, 0.0),
                num_tokens=event.num_tokens,
                num_bytes=self.trace(namespace, event.id).num_bytes,
                form="",
            )
            for event in self.events(namespace)
        ]

    def changes(self, namespace: str, since: int) -> Changes:
        return Changes(number=1, events=[] if since else self.events(namespace))

    def get(self, namespace: str, ids: Sequence[str]) -> list[Event]:
        return [self._spaces.get(namespace, {})[event_id][0] for event_id in ids]

    def has(self, namespace: str, ids: Collection[str]) -> set[str]:
        return set(ids) & self._spaces.get(namespace, {}).keys()

    def trace(self, namespace: str, event_id: str) -> Trace:
        return self._spaces.get(namespace, {})[event_id][1]

    def keys_of_layers(self, namespace: str, event_id: str, slots: Sequence[int]) -> torch.Tensor:
        return self.trace(namespace, event_id).keys[list(slots)]

    def touch(self, namespace: str, ids: Sequence[str], recalled_at: float) -> None:
        assert recalled_at <= time.time()
        self.touched.extend(ids)
        self.recalled.update(dict.fromkeys(ids, recalled_at))

    def link(self, namespace: str, links: Sequence[Link]) -> None:
        known = self._spaces.get(namespace, {}).keys()
        for link in links:
            if {link.source, link.target} <= known:
                old = self._links.get((namespace, link.source, link.target, link.kind))
                if old is None or old.weight < link.weight:
                    self._links[namespace, link.source, link.target, link.kind] = link

    def unlink(self, namespace: str, links: Sequence[Link]) -> None:
        for link in links:
            self._links.pop((namespace, link.source, link.target, link.kind), None)

    def links(self, namespace: str) -> list[Link]:
        return [link for key, link in sorted(self._links.items()) if key[0] == namespace]

    def select(
        self, namespace: str, *, chat_id: str | None = None, since: float = -math.inf, until: float = math.inf
    ) -> list[str]:
        events = self.events(namespace)
        return [e.id for e in events if chat_id in (None, e.chat_id) and since <= e.said_at < until]

    def forget(self, namespace: str, ids: Collection[str], *, selection: str = "event", requested_by: str = "") -> int:
        space = self._spaces.get(namespace, {})
        gone = [event_id for event_id in ids if space.pop(event_id, None) is not None]
        self._links = {
            key: link for key, link in self._links.items() if key[0] != namespace or not {*key[1:3]} & {*gone}
        }
        self.forgotten.append((namespace, selection, requested_by, len(gone)))
        return len(gone)

    def policies(self) -> dict[str, Policy]:
        return dict(self._policies)

    def set_policy(self, namespace: str, policy: Policy) -> None:
        self._policies[namespace] = policy

    def audit(self) -> list[Record]:
        return []

    def stats(self) -> StoreStats:
        entries = [entry for space in self._spaces.values() for entry in space.values()]
        return StoreStats(
            num_events=len(entries),
            num_tokens=sum(event.num_tokens for event, _ in entries),
            num_bytes=sum(trace.num_bytes for _, trace in entries),
            num_pending=0,
            num_failed_writes=0,
            num_corrupt=0,
        )

    def close(self) -> None:
        pass
