"""The memory beside the engine's pools, in the scheduler process.

Everything here runs on the scheduler's own thread: the radix tree, the allocators and the pools have no locks. Only
what was copied off them is stored by a thread in the background.
"""

import logging
import time
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import torch

from v14.engines.sglang import seams
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.recording import Noting
from v14.engines.sglang.recurrent import StatePool
from v14.engines.sglang.ticket import Ticket
from v14.engines.sglang.timing import Timer
from v14.memory import Memory
from v14.recall.cue import build_cue, gather
from v14.types import Cue, Plan

logger = logging.getLogger("v14")

MAX_WRITES = 8
"""Finished requests whose copies may wait to be stored; they keep pinned memory."""

MAX_ARRIVING = 4096
"""Readings that may wait for their request to be queued (a grammar is compiled in between)."""


class Runtime:
    """One memory and the engine it serves."""

    def __init__(self, memory: Memory, scheduler: Any) -> None:
        self.memory = memory
        self.scheduler = scheduler
        # By request id. A request that is aborted in the queue is never heard of again, so neither may keep it alive.
        self.arriving: OrderedDict[str, Reading] = OrderedDict()
        self.probing: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self.live_batch: Any = None
        self.voter_layers = frozenset(memory.profile.voters.layers)
        geometry = memory.profile.geometry
        self.states: StatePool | None = None
        if geometry.recurrent is not None and geometry.placeable:
            self.states = StatePool(scheduler.req_to_token_pool, geometry.recurrent)
        # Requests whose recurrent layers are watched, by id, and what they are to note in the pass that runs.
        self.recording: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self.noting: list[Noting] = []
        # Only `auto` has a choice to make, and needs to know what reading again costs.
        self.timer = Timer() if memory.profile.options.reinstate == "auto" else None
        self.rereading: WeakValueDictionary[str, Any] = WeakValueDictionary()

        self._writer = ThreadPoolExecutor(1, thread_name_prefix="v14-observe")
        self._writes: deque[tuple[str, Future[None]]] = deque()

    def write_behind(self, namespace: str, write: Callable[[], None]) -> None:
        """Store something in the background; `write` handles its own errors."""
        self._writes.append((namespace, self._writer.submit(write)))
        while len(self._writes) > MAX_WRITES:
            self._writes.popleft()[1].result()

    def settle(self, *namespaces: str) -> None:
        """Wait for what was read in these namespaces to be known there: not for the disk."""
        mine = [write for of, write in self._writes if of in namespaces]
        if mine:
            mine[-1].result()
        while self._writes and self._writes[0][1].done():
            self._writes.popleft()

    @property
    def kv_pool(self) -> Any:
        """The engine's pool of keys and values."""
        return self.scheduler.token_to_kv_pool_allocator.get_kvcache()

    def slots(self, req: Any, length: int) -> torch.Tensor:
        """KV slots of the first `length` tokens of a running request's sequence."""
        row: torch.Tensor = self.scheduler.req_to_token_pool.req_to_token[seams.kv_row(req), :length]
        return row

    def arrive(self, rid: str, ticket: Ticket, token_ids: "array[int]") -> "array[int]":
        """Open a reading for an arriving request; returns the token ids that the engine is to read."""
        session = self.memory.session(ticket.namespace, ticket.shared)
        ids = tuple(token_ids)
        layout = session.layout(ids)
        placements = session.standing(ticket.placements) if ticket.operation == "serve" else layout.placements
        sequence = session.sequence(ids, placements)
        if len(sequence.token_ids) + ticket.max_new_tokens >= self.scheduler.max_req_len:
            placements, sequence = (), session.sequence(ids, ())
        self.arriving[rid] = Reading(
            ticket=ticket, session=session, token_ids=ids, layout=layout, placements=placements, sequence=sequence
        )
        while len(self.arriving) > MAX_ARRIVING:
            self.arriving.popitem(last=False)
        if ticket.operation == "serve":
            session.record(ids, placements)
        return array("q", sequence.token_ids)

    @contextmanager
    def behind_forward(self) -> Iterator[None]:
        """Device work inside runs behind the forward pass in flight and before the next one.

        With overlap scheduling that pass may still write a token into a slot that was freed meanwhile; whatever is
        written into new slots has to come after it, which the scheduler's own stream does not promise.
        """
        scheduler = self.scheduler
        if scheduler.device == "cpu" or not scheduler.enable_overlap:
            yield
            return
        scheduler.forward_stream.wait_stream(scheduler.schedule_stream)
        with scheduler.device_module.stream(scheduler.forward_stream):
            yield

    @staticmethod
    def used_here(*tensors: torch.Tensor) -> None:
        """Keep the memory of tensors of another stream from being given away before the work queued here is done."""
        for tensor in tensors:
            if tensor.is_cuda:
                tensor.record_stream(torch.cuda.current_stream(tensor.device))

    def keep_cue(self, reading: Reading, row: torch.Tensor) -> None:
        """Start copying off the cue of a probe whose prompt is read; `row` holds the KV slots of its whole sequence.

        Called at the end of the forward pass, on its stream; nothing here waits for the device.
        """
        cue = self._cue(reading, row)
        reading.queries.clear()
        reading.cue = Cue(
            queries=cue.queries.to("cpu", non_blocking=True), context_lse=cue.context_lse.to("cpu", non_blocking=True)
        )
        if cue.queries.is_cuda:
            reading.cue_copied = torch.cuda.Event()
            reading.cue_copied.record()

    def _cue(self, reading: Reading, row: torch.Tensor) -> Cue:
        voters, geometry = self.memory.profile.voters, self.memory.profile.geometry
        read = {layer: torch.cat(parts) for layer, parts in reading.queries.items()}
        own = {layer: self.kv_pool.get_key_buffer(layer)[row] for layer in voters.layers}
        queries, keys = gather(read, own, geometry, voters)
        return build_cue(
            queries,
            keys,
            geometry,
            voters,
            first_query=len(reading.sequence.token_ids) - queries.shape[1],
            start=reading.new_position,
        )

    def plan(self, reading: Reading, cue: Cue) -> dict[str, Any]:
        """Vote, plan, and report what the front needs to go on."""
        started = time.perf_counter()
        if reading.cue_copied is not None:
            reading.cue_copied.synchronize()
        self.settle(*reading.session.reads)
        room = self.scheduler.max_req_len - len(reading.sequence.token_ids) - reading.ticket.max_new_tokens - 1
        plan = reading.session.plan(cue, reading.token_ids, reading.layout, max(0, room))
        vote_ms = (time.perf_counter() - started) * 1e3
        if self.memory.switches.profile:
            logger.info("profile vote_ms=%.2f events=%d", vote_ms, len(plan.votes))
        return self._report(reading, plan, vote_ms)

    def _report(self, reading: Reading, plan: Plan, vote_ms: float) -> dict[str, Any]:
        placements = reading.session.placed(reading.layout, plan)
        votes = {vote.event_id: vote.value for vote in plan.votes}
        return {
            "placements": [{"index": p.index, "event_ids": p.event_ids} for p in placements],
            "span_tokens": len(reading.session.sequence(reading.token_ids, placements).token_ids)
            - len(reading.token_ids),
            "recalled": [
                {
                    "id": event.id,
                    "namespace": event.namespace,
                    "chat_id": event.chat_id,
                    "role": event.role,
                    "said_at": event.said_at,
                    "num_tokens": event.num_tokens,
                    "vote": votes.get(event.id),
                    "text": self.scheduler.tokenizer.decode(list(event.token_ids)),
                }
                for event in plan.events
            ],
            "votes": [{"id": vote.event_id, "value": vote.value} for vote in plan.votes],
            "floor": self.memory.profile.options.recall_floor,
            "reason": plan.reason,
            "vote_ms": round(vote_ms, 3),
        }


_runtime: Runtime | None = None


def install(runtime: Runtime | None) -> None:
    """Make `runtime` the one that the hooks of this process use."""
    global _runtime
    _runtime = runtime


def current() -> Runtime | None:
    """The runtime of this process; None in a process, or for a model, without memory."""
    return _runtime
