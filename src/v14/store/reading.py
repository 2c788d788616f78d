"""The reading half of a store: what is pending first, the catalog second, and what is damaged set aside."""

import contextlib
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import torch

from v14.errors import StoreError, StoreKeyError, StoreUnavailableError, TraceCorruptError
from v14.store.changes import Changes
from v14.store.contract import StoreStats
from v14.store.expiry import Expiry, renewed
from v14.store.foundation import CatalogContract
from v14.store.glance import Glance, awaited, glances, renewed_glance
from v14.store.links import link_of
from v14.store.pending import Key, Renewal, Waiting
from v14.store.row import Row
from v14.store.segments import Segments
from v14.store.vault import Vault
from v14.store.writer import Writer
from v14.types import Event, Link, Trace

log = logging.getLogger("v14.store")

Read = TypeVar("Read")


class StoreReading:
    """See `v14.store.contract.Store`. Reading asks what is pending first and the catalog second: an event is dropped by
    the one only after the other has it, so no event is ever between them.
    """

    num_readers = 1

    _catalog: CatalogContract
    _segments: Segments
    _writer: Writer
    _expiry: Expiry
    _vault: Vault | None

    def namespaces(self) -> Mapping[str, int]:
        """Number of events by namespace."""
        return {namespace: events for namespace, (events, _) in self._counts().items()}

    def events(self, namespace: str) -> Sequence[Event]:
        """All events of a namespace, by `said_at`; those said at the same time in the order they were put."""
        with self._writer.pending() as pending:
            waiting = {key: entry.event for key, entry in pending.events.items() if key[0] == namespace}
            renewals = dict(pending.renewals)
        found = []
        for row in self._catalog.rows(namespace):
            if row.key in waiting or self._expiry.is_over(namespace, row.said_at, renewals.get(row.key)):
                continue
            event = self._decode(row)
            if event is not None:
                found.append(_renewed(event, renewals.get(row.key)))
        found += [event for event in waiting.values() if not self._expiry.is_over(namespace, event.said_at)]
        return sorted(found, key=lambda event: event.said_at)

    def glances(self, namespace: str) -> Sequence[Glance]:
        """What is known of the events of a namespace without their tokens and traces, in the order of `events`."""
        with self._writer.pending() as pending:
            waiting = {key: entry for key, entry in pending.events.items() if key[0] == namespace}
            renewals = dict(pending.renewals)
        found = list(glances(namespace, self._catalog.glances(namespace), self._vault))
        if waiting:
            ids = {event_id for _, event_id in waiting}
            found = [glance for glance in found if glance.id not in ids] + [awaited(e) for e in waiting.values()]
        if renewals:
            found = [renewed_glance(glance, renewals.get((namespace, glance.id))) for glance in found]
        if namespace in self._expiry.policies:
            found = [glance for glance in found if not self._expiry.is_over(namespace, glance.said_at)]
        return sorted(found, key=lambda glance: glance.said_at)

    def changes(self, namespace: str, since: int) -> Changes:
        """What changed in a namespace since number `since`, that of an earlier call; 0 is before everything."""
        with self._writer.pending() as pending:
            waiting = {key: entry.event for key, entry in pending.events.items() if key[0] == namespace}
            renewals = dict(pending.renewals)
        changed = self._catalog.changes(namespace, since)
        rows = (row for row in changed.rows if row.key not in waiting)
        decoded = [
            self._decode(row) for row in rows if not self._expiry.is_over(namespace, row.said_at, renewals.get(row.key))
        ]
        waiting = {key: event for key, event in waiting.items() if not self._expiry.is_over(namespace, event.said_at)}
        events = [*(event for event in decoded if event is not None), *waiting.values()]
        held = changed.held
        over = self._expiry.over_in(namespace, renewals)
        if over or held is not None:
            held = frozenset(self._catalog.select(namespace, math.inf) if held is None else held) - over
            held |= {event_id for _, event_id in waiting}
        return Changes(number=changed.number, events=sorted(events, key=lambda event: event.said_at), held=held)

    def get(self, namespace: str, ids: Sequence[str]) -> Sequence[Event]:
        """Events by id, in the order asked; an unknown id raises `KeyError`."""
        with self._writer.pending() as pending:
            renewals = {event_id: pending.renewals.get((namespace, event_id)) for event_id in ids}
        events = []
        for event_id in ids:
            found = self._find(namespace, event_id)
            event = found.event if isinstance(found, Waiting) else self._decode(found)
            if event is None:
                raise _unknown(namespace, event_id)
            events.append(_renewed(event, renewals[event_id]))
        return events

    def has(self, namespace: str, ids: Collection[str]) -> set[str]:
        """Those of `ids` that the namespace holds."""
        with self._writer.pending() as pending:
            asked = {(namespace, event_id) for event_id in ids}
            waiting = {key: pending.events[key].event for key in asked & pending.events.keys()}
            renewals = dict(pending.renewals)
        there = {key for key, event in waiting.items() if not self._expiry.is_over(namespace, event.said_at)}
        return {event_id for _, event_id in there | self._known(asked - waiting.keys(), renewals)}

    def trace(self, namespace: str, event_id: str) -> Trace:
        """The trace of an event, checked. Raises `KeyError`, or `TraceCorruptError` after setting the event aside."""
        return self._reading(
            namespace, event_id, lambda trace: trace, lambda row: self._segments.trace(row.segment, row.key, row.spec)
        )

    def keys_of_layers(self, namespace: str, event_id: str, slots: Sequence[int]) -> torch.Tensor:
        """Keys `[len(slots), T, H, D]` of some attention layers, checked, without reading the rest.

        Raises as `trace`, and `IndexError` for a slot that the trace does not have.
        """

        def taken(trace: Trace) -> torch.Tensor:
            _check_slots(slots, trace.keys.shape[0])
            return trace.keys[list(slots)]

        def read(row: Row) -> torch.Tensor:
            _check_slots(slots, row.spec.shape[0])
            return self._segments.keys(row.segment, row.key, row.spec, slots)

        return self._reading(namespace, event_id, taken, read)

    def links(self, namespace: str) -> Sequence[Link]:
        """All links of a namespace, those that await their commit included."""
        with self._writer.pending() as pending:
            changes = {key: change for key, change in pending.links.items() if key[0] == namespace}
        committed = self._catalog.links(namespace)
        weights = {key: weight for key, weight in committed.items() if key not in changes}
        weights |= {key: weight for key, change in changes.items() if (weight := change.over(committed.get(key)))}
        return [link_of(key, weight) for key, weight in sorted(weights.items())]

    def select(
        self, namespace: str, *, chat_id: str | None = None, since: float = -math.inf, until: float = math.inf
    ) -> Sequence[str]:
        """Ids of events by chat and by when they were last said, in [since, until); also of those set aside."""
        with self._writer.pending() as pending:
            waiting = [entry.event for key, entry in pending.events.items() if key[0] == namespace]
            renewals = dict(pending.renewals)
        said_at = {
            event_id: renewed(time, renewals.get((namespace, event_id)))
            for event_id, time in self._catalog.select(namespace, math.inf).items()
        }
        if chat_id is not None:
            said_at = {event_id: said_at[event_id] for event_id in self._of_chat(namespace, chat_id) & said_at.keys()}
        said_at |= {event.id: event.said_at for event in waiting if chat_id in (None, event.chat_id)}
        return [event_id for event_id, time in said_at.items() if since <= time < until]

    def stats(self) -> StoreStats:
        """Current sizes."""
        counts = self._counts().values()
        with self._writer.pending() as pending:
            num_pending = len(pending.events)
        return StoreStats(
            num_events=sum(events for events, _ in counts),
            num_tokens=sum(tokens for _, tokens in counts),
            num_bytes=self._segments.blobs.num_bytes,
            num_pending=num_pending,
            num_failed_writes=self._writer.num_lost,
            num_corrupt=self._catalog.num_corrupt(),
        )

    def verify(self) -> Sequence[Key]:
        """Derive every committed id again and read every trace: (namespace, id) of those that fail, now set aside.

        Events set aside earlier whose files are whole again (put back from a copy) are taken back.
        """
        failed = []
        for key in self._catalog.all_keys():
            row, whole = self._judged(key)
            if row is None:
                continue
            if not whole:
                failed.append(key)
            if whole == bool(row.corrupt):
                self._catalog.mark(row, corrupt=not whole)
        return failed

    def set_aside(self) -> Sequence[Key]:
        """(namespace, id) of the events that are set aside."""
        rows = (self._catalog.row(key, corrupt=True) for key in self._catalog.all_keys())
        return [row.key for row in rows if row is not None and row.corrupt]

    def _find(self, namespace: str, event_id: str) -> Waiting | Row:
        key = namespace, event_id
        with self._writer.pending() as pending:
            waiting, renewal = pending.events.get(key), pending.renewals.get(key)
        row = None if waiting else self._catalog.row(key)
        found = waiting or row
        said_at = waiting.event.said_at if waiting else row.said_at if row else 0.0
        if found is None or self._expiry.is_over(namespace, said_at, renewal):
            raise _unknown(namespace, event_id)
        return found

    def _of_chat(self, namespace: str, chat_id: str) -> set[str]:
        """Ids of committed events of a chat, set aside or not; of those that cannot be decrypted none."""
        chosen = set()
        for event_id in self._catalog.select(namespace, math.inf):
            row = self._catalog.row((namespace, event_id), corrupt=True)
            with contextlib.suppress(StoreKeyError, TraceCorruptError):
                if row is not None and row.chat(self._vault) == chat_id:
                    chosen.add(event_id)
        return chosen

    def _known(self, keys: Collection[Key], renewals: Mapping[Key, Renewal]) -> set[Key]:
        """Those of `keys` that have a row which is neither set aside nor over.

        A catalog that does not answer knows none: an event put twice is stored once.
        """
        try:
            return self._catalog.known(keys) - self._expiry.over(keys, renewals)
        except StoreUnavailableError:
            return set()

    def _counts(self) -> Mapping[str, tuple[int, int]]:
        """Events and tokens by namespace, pending ones included, those that are over not."""
        with self._writer.pending() as pending:
            waiting = {key: entry.event for key, entry in pending.events.items()}
            renewals = dict(pending.renewals)
        over = self._expiry.all_over(renewals)
        counts = dict(self._catalog.counts(without=waiting.keys() | over))
        for (namespace, _), event in waiting.items():
            if not self._expiry.is_over(namespace, event.said_at):
                events, tokens = counts.get(namespace, (0, 0))
                counts[namespace] = events + 1, tokens + event.num_tokens
        return counts

    def _reading(
        self, namespace: str, event_id: str, taken: Callable[[Trace], Read], read: Callable[[Row], Read]
    ) -> Read:
        """What `taken` makes of a pending event's trace, or `read` of a committed one's.

        Where `read` finds damage the event is set aside, unless forgetting moved it to another segment meanwhile.
        """
        while True:
            found = self._find(namespace, event_id)
            if isinstance(found, Waiting):
                return taken(found.trace)
            try:
                return read(found)
            except TraceCorruptError as error:
                now = self._catalog.row(found.key)
                if now is not None and now.segment == found.segment:
                    self._set_aside(found, error)
                    raise

    def _decode(self, row: Row) -> Event | None:
        """The row's event, or None after setting aside a row that does not match its id."""
        try:
            return row.event(self._vault)
        except StoreKeyError as error:
            log.error("event %s of namespace %r is passed over: %s", row.id, row.namespace, error)
            return None
        except ValueError as error:
            self._set_aside(row, error)
            return None

    def _set_aside(self, row: Row, error: Exception) -> None:
        log.error("event %s of namespace %r is set aside: %s", row.id, row.namespace, error)
        try:
            self._catalog.mark(row, corrupt=True)
        except StoreError as failure:
            log.warning("the store could not note that: %s", failure)

    def _judged(self, key: Key) -> tuple[Row | None, bool]:
        """An event's row, None where it is gone, and whether its trace is whole: looked at again where it was moved."""
        row = self._catalog.row(key, corrupt=True)
        while row is not None and not self._whole(row):
            now = self._catalog.row(key, corrupt=True)
            if now is not None and now.segment == row.segment:
                return row, False
            row = now
        return row, row is not None

    def _whole(self, row: Row) -> bool:
        try:
            row.event(self._vault)
            self._segments.read(row.segment, row.key, row.spec)
        except TraceCorruptError:
            return False
        except (StoreError, StoreKeyError):
            raise
        except ValueError:
            return False
        return True


def _unknown(namespace: str, event_id: str) -> KeyError:
    return KeyError(f"namespace {namespace!r} holds no event {event_id}")


def _check_slots(slots: Sequence[int], num_slots: int) -> None:
    if not all(0 <= slot < num_slots for slot in slots):
        raise IndexError(f"slots {list(slots)} of a trace with {num_slots} layers")


def _renewed(event: Event, renewal: Renewal | None) -> Event:
    return event if renewal is None or renewal.said_at <= event.said_at else replace(event, said_at=renewal.said_at)
