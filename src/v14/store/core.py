"""The store over any catalog and any blobs: what is pending, the writer, digests, setting aside, all written once."""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import torch

from v14.errors import StoreError, StoreKeyError, StoreUnavailableError, TraceCorruptError
from v14.store.changes import Changes
from v14.store.contract import StoreStats
from v14.store.foundation import CatalogContract
from v14.store.keeping import KEEP_EVERYTHING, Keeping
from v14.store.links import link_key, link_of
from v14.store.pending import Batch, Key, Renewal, Waiting
from v14.store.row import Row
from v14.store.segments import Segments
from v14.store.spec import Spec, check_dtypes
from v14.store.vault import Vault
from v14.store.writer import Writer
from v14.types import Event, Link, Trace

log = logging.getLogger("v14.store")

MIB = 1 << 20
BATCH_BYTES = 64 * MIB
"""Traces of one segment, if there are several."""
MAX_FAILED_BYTES = 256 * MIB
"""Traces that wait in memory while the store cannot be written."""
RETRY_S = 0.5
"""First pause after a failure."""

Read = TypeVar("Read", Trace, Spec, torch.Tensor)


class CoreStore:
    """See `v14.store.contract.Store` for what it promises.

    Reading asks what is pending first and the catalog second: an event is forgotten by the one only after the
    other has it, so no event is ever between them.
    """

    def __init__(
        self, catalog: CatalogContract, segments: Segments, *,
        name: Callable[[int], str], clock: Callable[[], float],
        batch_bytes: int, max_failed_bytes: int, retry_s: float,
        keeping: Keeping = KEEP_EVERYTHING, vault: Vault | None = None,
    ) -> None:  # fmt: skip
        """`name` gives the name of the next segment after so many commits of segments; `clock` gives Unix seconds.

        `vault` is the one that `segments` seal with, None for a store that is not encrypted.
        """
        self._keeping, self._vault = keeping, vault
        self._catalog, self._segments, self._name, self._clock = catalog, segments, name, clock
        self._num_committed = 0
        self._writer = Writer(self._commit, batch_bytes=batch_bytes, max_failed_bytes=max_failed_bytes, retry_s=retry_s)

    def put(self, events: Sequence[tuple[Event, Trace]]) -> None:
        """Queue events; the later `said_at` counts for known ones. Raises `ValueError` for what can never be stored."""
        for event, trace in events:
            _check(event, trace)
        with self._writer.pending() as pending:
            known = self._known((event.namespace, event.id) for event, _ in events)
            for event, trace in events:
                key = event.namespace, event.id
                if key in known or key in pending.events:
                    pending.renew(key, said_at=event.said_at)
                else:
                    pending.add(event, trace)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until what was put before is committed or has failed (then `stats().num_pending` is not 0)."""
        return self._writer.flush(timeout_s)

    def namespaces(self) -> Mapping[str, int]:
        """Number of events by namespace."""
        return {namespace: events for namespace, (events, _) in self._counts().items()}

    def events(self, namespace: str) -> Sequence[Event]:
        """All events of a namespace, by `said_at`; those said at the same time in the order they were put."""
        with self._writer.pending() as pending:
            waiting = {key: entry for key, entry in pending.events.items() if key[0] == namespace}
            renewals = dict(pending.renewals)
        found = []
        for row in self._catalog.rows(namespace):
            event = None if row.key in waiting else self._decode(row)
            if event is not None:
                found.append(_renewed(event, renewals.get(row.key)))
        return sorted([*found, *(entry.event for entry in waiting.values())], key=lambda event: event.said_at)

    def changes(self, namespace: str, since: int) -> Changes:
        """What changed in a namespace since number `since`, that of an earlier call; 0 is before everything."""
        with self._writer.pending() as pending:
            waiting = {key: entry.event for key, entry in pending.events.items() if key[0] == namespace}
        changed = self._catalog.changes(namespace, since)
        decoded = (self._decode(row) for row in changed.rows if row.key not in waiting)
        events = [*(event for event in decoded if event is not None), *waiting.values()]
        held = None if changed.held is None else changed.held | {event_id for _, event_id in waiting}
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
            waiting = {event_id for event_id in ids if (namespace, event_id) in pending.events}
        asked = ((namespace, event_id) for event_id in ids if event_id not in waiting)
        return waiting | {event_id for _, event_id in self._known(asked)}

    def trace(self, namespace: str, event_id: str) -> Trace:
        """The trace of an event, checked. Raises `KeyError`, or `TraceCorruptError` after setting the event aside."""
        found = self._find(namespace, event_id)
        return found.trace if isinstance(found, Waiting) else self._checked(found, lambda: self._read(found))

    def keys_of_layers(self, namespace: str, event_id: str, slots: Sequence[int]) -> torch.Tensor:
        """Keys `[len(slots), T, H, D]` of some attention layers, checked, without reading the rest.

        Raises as `trace`, and `IndexError` for a slot that the trace does not have.
        """
        found = self._find(namespace, event_id)
        if isinstance(found, Waiting):
            _check_slots(slots, found.trace.keys.shape[0])
            return found.trace.keys[list(slots)]
        row = found
        spec = self._checked(row, lambda: row.spec)
        _check_slots(slots, spec.shape[0])
        return self._checked(row, lambda: self._segments.keys(row.segment, row.key, spec, slots))

    def touch(self, namespace: str, ids: Sequence[str], recalled_at: float) -> None:
        """Note that events were recalled at a Unix time; ids that the namespace does not hold are passed over."""
        with self._writer.pending() as pending:
            for event_id in ids:
                pending.renew((namespace, event_id), recalled_at=recalled_at)

    def link(self, namespace: str, links: Sequence[Link]) -> None:
        """Queue links for the writer; the larger weight counts. One with an end that is not held is passed over."""
        known = self.has(namespace, {end for link in links for end in (link.source, link.target)})
        with self._writer.pending() as pending:
            for link in links:
                if {link.source, link.target} <= known:
                    pending.link(link_key(namespace, link), link.weight)

    def unlink(self, namespace: str, links: Sequence[Link]) -> None:
        """Queue the removal of links, whatever their weights; unknown ones are passed over."""
        with self._writer.pending() as pending:
            for link in links:
                pending.link(link_key(namespace, link), None)

    def links(self, namespace: str) -> Sequence[Link]:
        """All links of a namespace, those that await their commit included."""
        with self._writer.pending() as pending:
            changes = {key: change for key, change in pending.links.items() if key[0] == namespace}
        committed = self._catalog.links(namespace)
        weights = {key: weight for key, weight in committed.items() if key not in changes}
        weights |= {key: weight for key, change in changes.items() if (weight := change.over(committed.get(key)))}
        return [link_of(key, weight) for key, weight in sorted(weights.items())]

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
            row = self._catalog.row(key, corrupt=True)
            if row is None:
                continue
            whole = self._whole(row)
            if not whole:
                failed.append(key)
            if whole == bool(row.corrupt):
                self._catalog.mark(row, corrupt=not whole)
        return failed

    def close(self) -> None:
        """Commit what is pending and close; events that cannot be written are lost. A second call does nothing."""
        self._writer.close()
        self._catalog.close()
        self._segments.blobs.close()

    def _commit(self, batch: Batch) -> None:
        """Write a batch: first its traces, whole and under their name, then its rows in one transaction."""
        rows = []
        if batch.events:
            name = self._name(self._num_committed)
            traces = {key: waiting.trace for key, waiting in batch.events.items()}
            specs = self._segments.write(name, traces, self._keeping.form)
            now = self._clock()
            rows = [
                Row.of(entry.event, specs[key], name, stored_at=now, recalled_at=entry.recalled_at, vault=self._vault)
                for key, entry in batch.events.items()
            ]
        self._catalog.commit(rows, batch.renewals, batch.links)
        self._num_committed += bool(rows)

    def _known(self, keys: Iterable[Key]) -> set[Key]:
        """Those that are committed. A catalog that does not answer knows none: an event put twice is stored once."""
        try:
            return self._catalog.known(keys)
        except StoreUnavailableError:
            return set()

    def _find(self, namespace: str, event_id: str) -> Waiting | Row:
        key = namespace, event_id
        with self._writer.pending() as pending:
            waiting = pending.events.get(key)
        found = waiting or self._catalog.row(key)
        if found is None:
            raise _unknown(namespace, event_id)
        return found

    def _counts(self) -> Mapping[str, tuple[int, int]]:
        """Events and tokens by namespace, pending ones included."""
        with self._writer.pending() as pending:
            waiting = {key: entry.event.num_tokens for key, entry in pending.events.items()}
        counts = dict(self._catalog.counts(without=waiting))
        for (namespace, _), num_tokens in waiting.items():
            events, tokens = counts.get(namespace, (0, 0))
            counts[namespace] = events + 1, tokens + num_tokens
        return counts

    def _read(self, row: Row) -> Trace:
        return self._segments.trace(row.segment, row.key, row.spec)

    def _checked(self, row: Row, read: Callable[[], Read]) -> Read:
        """What `read` returns; where it finds damage, the event is set aside first.

        Where forgetting moved the trace to another segment meanwhile, nothing is damaged: that raises `StoreError`.
        """
        try:
            return read()
        except TraceCorruptError as error:
            now = self._catalog.row(row.key)
            if now is None or now.segment != row.segment:
                raise StoreError(f"event {row.id} was moved or forgotten while it was read; read it again") from error
            self._set_aside(row, error)
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


def _check(event: Event, trace: Trace) -> None:
    """Refuse what could never be committed, before it is queued. Raises `ValueError`."""
    check_dtypes(trace)
    if trace.num_tokens != event.num_tokens:
        raise ValueError(f"event {event.id} has {event.num_tokens} tokens, its trace {trace.num_tokens}")
    if not math.isfinite(event.said_at):
        raise ValueError(f"event {event.id} was said at {event.said_at}")
    for text in (event.namespace, event.chat_id, event.role, event.parent):
        text.encode()
