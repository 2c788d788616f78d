"""The store over any catalog and any blobs: what is pending, the writer, digests, setting aside, all written once."""

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from v14.store.audit import Record, namespace_digest
from v14.store.erase import Eraser
from v14.store.expiry import Expiry
from v14.store.foundation import CatalogContract
from v14.store.keeping import GATHER_S, KEEP_EVERYTHING, Keeping
from v14.store.links import link_key
from v14.store.notes import write_note
from v14.store.pending import Batch, Key
from v14.store.policies import Policy
from v14.store.reading import StoreReading
from v14.store.row import Row
from v14.store.segments import Segments
from v14.store.spec import Spec, check_dtypes
from v14.store.vault import Vault
from v14.store.writer import TEND_S, Writer
from v14.types import Event, Link, Trace

log = logging.getLogger("v14.store")

MIB = 1 << 20
BATCH_BYTES = 64 * MIB
"""Traces of one segment, if there are several."""
MAX_FAILED_BYTES = 256 * MIB
"""Traces that wait in memory while the store cannot be written."""
RETRY_S = 0.5
"""First pause after a failure."""


class CoreStore(StoreReading):
    """See `v14.store.contract.Store` for what it promises."""

    def __init__(
        self, catalog: CatalogContract, segments: Segments, *,
        name: Callable[[int], str], clock: Callable[[], float],
        batch_bytes: int, max_failed_bytes: int, retry_s: float, tend_s: float = TEND_S,
        keeping: Keeping = KEEP_EVERYTHING, vault: Vault | None = None,
    ) -> None:  # fmt: skip
        """`name` gives the name of the next segment after so many commits of segments; `clock` gives Unix seconds.

        `vault` is the one that `segments` seal with, None for a store that is not encrypted.
        """
        self._keeping, self._vault = keeping, vault
        self._catalog, self._segments, self._name, self._clock = catalog, segments, name, clock
        self._num_committed = 0
        self._is_tidy = True
        self._eraser = Eraser(catalog, segments, new_name=self._new_name, leftovers=self._leftovers, clock=clock)
        self._expiry = Expiry(catalog, clock)
        self._writer = Writer(
            self._commit, batch_bytes=batch_bytes, max_failed_bytes=max_failed_bytes, retry_s=retry_s,
            tend=self._tend, tend_s=tend_s,
            gather_s=GATHER_S if keeping.sync == "batch" else 0.0,
        )  # fmt: skip

    def put(self, events: Sequence[tuple[Event, Trace]]) -> None:
        """Queue events; the later `said_at` counts for known ones. Raises `ValueError` for what can never be stored."""
        for event, trace in events:
            _check(event, trace)
        with self._writer.pending() as pending:
            known = self._known({(event.namespace, event.id) for event, _ in events}, pending.renewals)
            for event, trace in events:
                key = event.namespace, event.id
                if key in known or key in pending.events:
                    pending.renew(key, said_at=event.said_at)
                else:
                    pending.add(event, trace)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until what was put before is committed or has failed (then `stats().num_pending` is not 0)."""
        return self._writer.flush(timeout_s)

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

    def forget(self, namespace: str, ids: Collection[str], *, selection: str = "event", requested_by: str = "") -> int:
        """Erase events, set aside or not, and say how many there were. Durable, and gone from every file, on return.

        `selection` and `requested_by` go into the audit. Raises `StoreError` where that could not be done in full; see
        `Eraser.erase`.
        """
        keys = [(namespace, event_id) for event_id in ids]

        def erase() -> int:
            with self._changing():
                with self._writer.pending() as pending:
                    dropped = pending.forget(set(keys))
                return self._eraser.erase(
                    keys, dropped, action="forget", selection=selection, requested_by=requested_by
                )

        return self._writer.run(erase)

    def policies(self) -> Mapping[str, Policy]:
        """Policies by namespace."""
        return self._expiry.policies

    def set_policy(self, namespace: str, policy: Policy) -> None:
        """Replace the policy of a namespace; in force when it returns, and durable. Raises `StoreError`."""
        self._catalog.set_policy(namespace, policy)
        self._expiry.refresh()

    def audit(self) -> Sequence[Record]:
        """What was forgotten and expired, oldest first."""
        return self._catalog.audit()

    def note_import(self, namespace: str, num_events: int, num_tokens: int, requested_by: str = "") -> None:
        """Append to the audit that events were imported, durably. Raises `StoreError`."""
        at = self._clock()
        record = Record(
            at=at,
            action="import",
            selection="file",
            namespace_digest=namespace_digest(namespace),
            num_events=num_events,
            num_tokens=num_tokens,
            requested_by=requested_by,
            finished_at=at,
        )

        def note() -> None:
            self._ready()
            with self._catalog.erasing():
                self._catalog.forget((), (), [record])

        self._writer.run(note)

    def close(self) -> None:
        """Commit what is pending and close; events that cannot be written are lost. A second call does nothing."""
        self._writer.close()
        self._catalog.close()
        self._segments.blobs.close()

    def _commit(self, batch: Batch) -> None:
        """Write a batch: first its traces, whole and under their name, then its rows in one transaction."""
        rows: list[Row] = []
        now = self._clock()

        def note(key: Key, spec: Spec) -> bytes:
            entry = batch.events[key]
            times = {"stored_at": now, "recalled_at": entry.recalled_at}
            rows.append(Row.of(entry.event, spec, name, **times, vault=self._vault))
            return write_note(rows[-1])

        with self._changing():
            if batch.events:
                name = self._name(self._num_committed)  # used again until the commit succeeds
                traces = {key: waiting.trace for key, waiting in batch.events.items()}
                self._segments.write(name, traces, self._keeping.form, note)
            self._catalog.commit(rows, batch.renewals, batch.links)
        self._num_committed += bool(rows)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Around every change of the store, on the writer's thread; raises `StoreError` where it cannot be changed.

        One that fails may leave a blob that no row names.
        """
        try:
            self._ready()
            yield
        except BaseException:
            self._is_tidy = False
            raise

    def _ready(self) -> None:
        """Called on the writer's thread before the store is changed; raises `StoreError` where it cannot be."""

    def _new_name(self) -> str:
        self._num_committed += 1
        return self._name(self._num_committed - 1)

    def _leftovers(self, replaced: set[str]) -> set[str]:
        """Segments that may go when those `replaced` do; a store that has a single writer knows of more."""
        return replaced

    def _tend(self) -> None:
        """On the writer's thread: erase what is over, and finish what forgetting had to leave."""
        with self._changing():
            self._expiry.refresh()
            with self._writer.pending() as pending:
                renewals = dict(pending.renewals)
                over = {
                    key for key, entry in pending.events.items() if self._expiry.is_over(key[0], entry.event.said_at)
                }
                dropped = pending.forget(over)
            self._eraser.erase(over | self._expiry.all_over(renewals), dropped, action="expire", selection="ttl")
            self._finish()

    def _finish(self) -> None:
        """On the writer's thread: remove from files what a forgetting had to leave there."""
        if not self._catalog.finished():
            self._eraser.finish()


def _check(event: Event, trace: Trace) -> None:
    """Refuse what could never be committed, before it is queued. Raises `ValueError`."""
    check_dtypes(trace)
    if trace.num_tokens != event.num_tokens:
        raise ValueError(f"event {event.id} has {event.num_tokens} tokens, its trace {trace.num_tokens}")
    if not math.isfinite(event.said_at):
        raise ValueError(f"event {event.id} was said at {event.said_at}")
    for text in (event.namespace, event.chat_id, event.role, event.parent):
        text.encode()
