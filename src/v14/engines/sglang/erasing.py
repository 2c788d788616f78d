"""Scheduler process: forgetting, in everything that the engine and the memory keep.

    requests in flight that hold what is forgotten   ended, and not stored
    index, transcripts, journal, store               `Memory.forget`
    radix tree                                       what no request stands on is evicted, of every namespace
    KV slots and state slots that are free           zeroed
    freed memory of the process                      `scrub`

A node of the tree cannot be told from its slots to hold a text, and its keys are the engine's own affair; so all of
it goes that can go. That costs everybody the prefixes that were cached, once. What a request stands on is that
request's own sequence: of those that go on, none holds what is forgotten. Requests that are ended need a few more
passes of the scheduler; until then `finish` says that they are in flight, and has to be called again.
"""

import gc
from collections.abc import Sequence
from typing import Any

from sglang.srt.managers.io_struct import AbortReq
from sglang.srt.mem_cache.base_prefix_cache import EvictParams

from v14.engines.sglang import seams
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.scrub import scrub
from v14.engines.sglang.slots import write
from v14.engines.sglang.telling import COUNT, IDS
from v14.events.runs import contains, packed
from v14.types import Event


class Eraser:
    """Erases events from one engine and its memory."""

    def __init__(self, engine: Runtime) -> None:
        self._engine = engine

    def erase(self, namespace: str, events: Sequence[Event], kind: str, requested_by: str) -> dict[str, Any]:
        """Forget events of a namespace: how many there were, their ids, and how many requests have yet to end.

        `kind` of selection and `requested_by` go into the store's audit.
        """
        ids = [event.id for event in events]
        for _, reading in self._readings():
            if _holds(reading, namespace, events):
                reading.is_stored = True
                reading.erased |= {(namespace, event_id) for event_id in ids}
        memory = self._engine.memory
        num_events = self._engine.ranks.told(
            COUNT, lambda: memory.forget(namespace, ids, selection=kind, requested_by=requested_by)
        )
        return {"forgotten": num_events, "ids": ids, "in_flight": self.finish(namespace, ids)}

    def finish(self, namespace: str, ids: Sequence[str]) -> int:
        """Clear what has become free; how many requests that held some of the events have yet to end."""
        gone = {(namespace, event_id) for event_id in ids}
        held_by = self._engine.ranks.told(
            IDS, lambda: [rid for rid, reading in self._readings() if not gone.isdisjoint(reading.erased)]
        )
        for rid in held_by:
            # Again each time: a request on its way back into the queue does not hear of it.
            self._engine.scheduler.abort_request(AbortReq(rid=rid))
        self._evict()
        self._clear_free_slots()
        self._let_go_of_last_batch()
        gc.collect()
        scrub()
        return len(held_by)

    def _readings(self) -> list[tuple[str, Reading]]:
        """The requests that are waiting or running, by id."""
        engine = self._engine
        waiting = {req.rid for req in engine.scheduler.waiting_queue}
        attached = [
            (rid, req.v14_reading)
            for rid, req in list(engine.attached.items())
            if rid in waiting or seams.kv_row(req) is not None
        ]
        return [*attached, *engine.arriving.items()]

    def _evict(self) -> None:
        allocator = self._engine.scheduler.token_to_kv_pool_allocator
        states = self._engine.state_pool
        everything = EvictParams(num_tokens=allocator.size, mamba_num=0 if states is None else states.num_slots)
        self._engine.scheduler.tree_cache.evict(everything)

    def _let_go_of_last_batch(self) -> None:
        """SGLang keeps the last batch, with its requests, until there is another; flushing its cache does the same."""
        scheduler = self._engine.scheduler
        if scheduler.is_fully_idle():
            scheduler.cur_batch_for_debug = scheduler.last_batch = None

    def _clear_free_slots(self) -> None:
        engine = self._engine
        allocator = engine.scheduler.token_to_kv_pool_allocator
        free = allocator.alloc(allocator.available_size())
        if free is not None:
            free = free.clone()
            try:
                with engine.behind_forward():
                    engine.used_here(free)
                    for layer in engine.memory.profile.geometry.layers:
                        write(engine.kv_pool.get_key_buffer(layer.index), free, 0.0)
                        write(engine.kv_pool.get_value_buffer(layer.index), free, 0.0)
            finally:
                allocator.free(free)
        if engine.state_pool is not None:
            with engine.behind_forward():
                engine.state_pool.clear_free()


def _holds(reading: Reading, namespace: str, events: Sequence[Event]) -> bool:
    """Whether a request's sequence has some of the events, recalled or in its own words."""
    session = reading.session
    if namespace not in session.reads:
        return False
    placed = {event_id for placement in reading.placements for event_id in placement.event_ids}
    sequence = packed(reading.sequence.token_ids)
    return any(
        event.id in placed or (namespace == session.namespace and contains(sequence, packed(event.body)))
        for event in events
    )
