"""What a store does with what it holds while nothing else is to do. Runs on the writer's thread.

budget       beyond it the events that were not asked for the longest are erased, as by forgetting, with an audit line
form         idle traces are rewritten smaller, and readable ones sealed once the store has a key
compaction   small segments, one for each commit, become one

A segment is rewritten whole: the new file first, then the rows in one transaction, then the old file goes. A crash
leaves a file that no row names, which the next opening, or collection, removes.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from v14.codecs.form import Form
from v14.errors import StoreError
from v14.store.erase import Eraser
from v14.store.foundation import CatalogContract
from v14.store.keeping import Keeping
from v14.store.notes import write_note
from v14.store.packing import Packed, fitting, pack, row_sizes
from v14.store.pending import Key
from v14.store.row import Row
from v14.store.segments import Segments
from v14.store.spec import Spec
from v14.store.vault import Vault

log = logging.getLogger("v14.store")

EVICT_TO = 0.9
"""Share of a budget that is left after evicting: segments are written anew for it, and not for every new event."""

MAX_EVICTED = 20_000
"""At one time: what is beyond that goes the next time."""

SMALL_BYTES = 8 << 20
FEW_SMALL = 16
"""So many segments of less than `SMALL_BYTES` become one."""
MAX_MERGED = 256
REST_S = 600.0
"""Pause after a look at all rows that found nothing to rewrite."""


class Tender:
    """Tends one store. `new_name` names a segment, `clock` gives Unix seconds, `merged_bytes` bounds a segment."""

    def __init__(
        self, catalog: CatalogContract, segments: Segments, eraser: Eraser, keeping: Keeping, vault: Vault | None, *,
        new_name: Callable[[], str], clock: Callable[[], float], merged_bytes: int,
    ) -> None:  # fmt: skip
        self._catalog, self._segments, self._eraser = catalog, segments, eraser
        self._keeping, self._vault, self._new_name, self._clock = keeping, vault, new_name, clock
        self._merged_bytes = merged_bytes
        self._settled: set[str] = set()
        self._rested_until = 0.0
        self._seen_bytes = -1

    def tend(self) -> None:
        """Keep the budgets, then rewrite one segment at most. Raises `StoreError` and `OSError`."""
        self.keep_budgets()
        if time.monotonic() >= self._rested_until and not self.rewrite_one() and not self.merge():
            self._rested_until = time.monotonic() + REST_S

    def keep_budgets(self) -> int:
        """Evict what is beyond the budgets of the store and of its namespaces; how many events."""
        num_bytes = self._segments.blobs.num_bytes
        if num_bytes == self._seen_bytes:
            return 0
        num_evicted = 0
        for namespace, policy in self._catalog.policies().items():
            if policy.max_bytes is not None:
                rows = self._catalog.least_asked(namespace)
                num_evicted += self._evict(rows, sum(map(row_bytes, rows)), policy.max_bytes, "a namespace's budget")
        held, max_bytes = self._segments.blobs.num_bytes, self._keeping.max_bytes
        if max_bytes is not None and held > max_bytes:
            rows = self._catalog.least_asked(None, MAX_EVICTED)
            num_evicted += self._evict(rows, held, max_bytes, "SGLANG_V14_MAX_STORE_GB")
        self._seen_bytes = self._segments.blobs.num_bytes
        return num_evicted

    def _evict(self, rows: Sequence[Row], held_bytes: int, max_bytes: int, budget: str) -> int:
        """Erase the first of `rows` until `max_bytes` are kept, with some room to spare."""
        if held_bytes <= max_bytes:
            return 0
        excess = held_bytes - EVICT_TO * max_bytes
        victims: list[Key] = []
        for row in rows:
            if excess <= 0:
                break
            victims.append(row.key)
            excess -= row_bytes(row)
        num_evicted = self._eraser.erase(victims, [], action="evict", selection="budget")
        log.warning("%d events that were not asked for the longest are forgotten (%s)", num_evicted, budget)
        return num_evicted

    def rewrite_one(self) -> bool:
        """Rewrite one segment that holds idle or unsealed events; whether there was one."""
        before = self._clock() - self._keeping.idle_s
        unsealed = self._vault is not None
        due = self._catalog.rewritable(before, self._idle.text, unsealed=unsealed) - self._settled
        for name in sorted(due):
            if self._rewrite([name], before):
                if unsealed and not self._catalog.rewritable(-1.0, "", unsealed=True):
                    # Readable copies of what is sealed now are to be found in freed pages and in the log.
                    self._catalog.scrub(None)
                return True
            self._settled.add(name)
        return False

    def merge(self) -> bool:
        """Make one segment of many small ones; whether there were enough."""
        sizes = self._segments.blobs.list()
        named = self._catalog.segments()
        small = [
            name for name in sorted(named & sizes.keys()) if sizes[name] < min(SMALL_BYTES, self._merged_bytes // 2)
        ]
        chosen, num_bytes = [], 0
        for name in small[:MAX_MERGED]:
            num_bytes += sizes[name]
            if num_bytes > self._merged_bytes:
                break
            chosen.append(name)
        return len(chosen) >= FEW_SMALL and self._rewrite(chosen, -1.0)

    @property
    def _idle(self) -> Form:
        return replace(self._keeping.idle, sealed=self._vault is not None)

    def _rewrite(self, names: Sequence[str], idle_before: float) -> bool:
        """Write segments anew as one, idle events in their form; whether anything was gained.

        Nothing is done where a trace cannot be read: its file may be put back from a copy.
        """
        with self._catalog.erasing():
            return self._rewritten(names, idle_before)

    def _rewritten(self, names: Sequence[str], idle_before: float) -> bool:
        rows = [row for name in names for row in self._catalog.in_segment(name)]
        packed: dict[Key, Packed] = {}
        changed = len(names) > 1
        for row in rows:
            try:
                now = self._segments.read(row.segment, row.key, row.spec)
                row.event(self._vault)
            except ValueError as error:
                log.info("%s stays as it is: %s", self._segments.blobs.where(row.segment), error)
                return False
            then = self._smaller(now) if max(row.said_at, row.recalled_at) < idle_before else now
            changed |= then is not now or row.spec.form.sealed != (self._vault is not None)
            packed[row.key] = then
        if not changed or not rows:
            return False
        name, by_key = self._new_name(), {row.key: row for row in rows}
        moved: list[Row] = []

        def note(key: Key, spec: Spec) -> bytes:
            moved.append(self._moved(by_key[key], spec, name))
            return write_note(moved[-1])

        self._segments.write(name, packed, note=note)
        try:
            self._catalog.move(moved, was={row.key: row.segment for row in rows})
        except StoreError:
            self._segments.blobs.remove([name])
            raise
        for old in names:
            self._segments.forget(old)
        self._segments.blobs.remove(names)
        return True

    def _smaller(self, packed: Packed) -> Packed:
        """A trace in the form of idle ones, or as it is where that gains nothing."""
        if packed.form.only is not None or self._keeping.idle.codec == "native":
            return packed
        trace = packed.trace()
        there = pack(trace, fitting(trace, replace(self._keeping.idle, only=None)))
        return there if _num_bytes(there) < _num_bytes(packed) else packed

    def _moved(self, row: Row, spec: Spec, segment: str) -> Row:
        event = row.event(self._vault)
        anew = Row.of(event, spec, segment, stored_at=row.stored_at, recalled_at=row.recalled_at, vault=self._vault)
        return replace(anew, corrupt=row.corrupt)


def row_bytes(row: Row) -> int:
    """Bytes of an event's trace on disk; 0 where the row does not say it."""
    try:
        return sum(map(sum, row_sizes(row.spec).values()))
    except StoreError:
        return 0


def _num_bytes(packed: Packed) -> int:
    return sum(row.numel() for rows in packed.rows.values() for row in rows)
