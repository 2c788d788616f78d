"""The memory beside the engine's pools, in the scheduler process.

Everything here runs on the scheduler's own thread: the radix tree, the allocators and the pools have no locks. Only
what was copied off them is stored by a thread in the background.
"""

import logging
import time
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any
from weakref import WeakValueDictionary

import torch

from v14.engines.sglang import seams
from v14.engines.sglang.harvest import Harvest, Run
from v14.engines.sglang.passes import Pass
from v14.engines.sglang.ranks import RankError, Ranks
from v14.engines.sglang.reading import Later, Reading
from v14.engines.sglang.recording import Noting
from v14.engines.sglang.recurrent import StatePool
from v14.engines.sglang.reporting import of_prompt
from v14.engines.sglang.shards import Shards
from v14.engines.sglang.slots import read
from v14.engines.sglang.telling import DECISION, OPENING, WAY, Decision, Opening, ToldSession
from v14.engines.sglang.ticket import KEY, Ticket
from v14.engines.sglang.timing import Timer
from v14.geometry import Geometry
from v14.memory import Memory, Session
from v14.recall.cue import build_cue, gather
from v14.recall.voters import Voters
from v14.reinstate.cost import Way
from v14.reinstate.layout import Layout
from v14.reinstate.transcripts import Placement
from v14.types import Cue, Plan, Span

logger = logging.getLogger("v14")

MAX_WRITES = 8
"""Finished requests whose copies may wait to be stored; they keep pinned memory."""

MAX_ARRIVING = 4096
"""Readings that may wait for their request to be queued (a grammar is compiled in between)."""


class Runtime:
    """One memory and the engine it serves; of several `ranks`, the first one's memory and this one's engine."""

    def __init__(self, memory: Memory, scheduler: Any, ranks: Ranks | None = None) -> None:
        self.memory = memory
        self.scheduler = scheduler
        self.ranks = ranks or Ranks()
        self.shards = Shards.of(memory.profile.geometry, self.ranks.size)
        # By request id. A request that is aborted in the queue is never heard of again, so neither may keep it alive.
        self.arriving: OrderedDict[str, Reading] = OrderedDict()
        self.attached: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self.probing: WeakValueDictionary[str, Any] = WeakValueDictionary()
        # Requests that ended with their plan and are queued again as soon as their KV is released.
        self.ended: dict[str, Any] = {}
        # Requests that are retracted before the next pass that decodes, and go on behind what a look recalled.
        self.due: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self.live_batch: Any = None
        # The pass that runs, if it may end behind the last voter layer.
        self.hearing: tuple[Pass, ...] = ()
        # Whether the last pass ended there, and its result is still to be processed.
        self.last_stopped = False
        self.voter_layers = frozenset(memory.profile.voters.layers)
        self.last_voter_layer = max(self.voter_layers)
        geometry = memory.profile.geometry
        self.state_pool: StatePool | None = None
        if geometry.recurrent is not None and geometry.placeable:
            self.state_pool = StatePool(scheduler.req_to_token_pool, geometry.recurrent)
        # Several ranks have a part of the states each, which is neither noted nor placed: their events are read again.
        self.states = self.state_pool if self.ranks.size == 1 else None
        # Requests whose recurrent layers are watched, by id, and what they are to note in the pass that runs.
        self.recording: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self.noting: list[Noting] = []
        # What is placed or copied is there for the served model only: a draft model has to read it.
        self.has_draft_model = seams.has_draft_model(scheduler.server_args)
        is_parted = self.state_pool is not None and self.states is None
        self.reinstate = "reread" if self.has_draft_model or is_parted else memory.profile.options.reinstate
        # Only `auto` has a choice to make, and needs to know what reading again costs.
        self.timer = Timer() if self.reinstate == "auto" and self.ranks.leads else None
        self.rereading: WeakValueDictionary[str, Any] = WeakValueDictionary()

        self._writer = ThreadPoolExecutor(1, thread_name_prefix="v14-observe")
        self._writes: deque[tuple[str, Future[None]]] = deque()

    def write_behind(self, namespace: str, write: Callable[[], None]) -> None:
        """Store something in the background; `write` handles its own errors."""
        self._writes.append((namespace, self._writer.submit(write)))
        while len(self._writes) > MAX_WRITES:
            self._writes.popleft()[1].result()

    @cached_property
    def _mine(self) -> tuple[Geometry, Voters]:
        """The model and its voters as this rank has them."""
        geometry, voters = self.memory.profile.geometry, self.memory.profile.voters
        if self.ranks.size == 1:
            return geometry, voters
        return self.shards.geometry(geometry), self.shards.voters(voters, self.ranks.rank)[0]

    @property
    def num_waiting(self) -> int:
        """Finished requests whose events are still to be made."""
        return sum(not write.done() for _, write in tuple(self._writes))

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

    def arrive(self, recv_req: Any, ticket: Ticket) -> None:
        """Open a reading for an arriving request, and give it the token ids that the engine is to read."""
        session_of = self.memory.session if self.ranks.leads else partial(ToldSession, self.memory)
        session = session_of(ticket.namespace, ticket.shared, request_id=recv_req.rid)
        token_ids = tuple(recv_req.input_ids)
        opening = self.ranks.told(OPENING, lambda: self._opening(ticket, session, token_ids))
        self.expect(recv_req, self.ranks.agreed(lambda: self._opened(recv_req, ticket, session, token_ids, opening)))

    def _opening(self, ticket: Ticket, session: Session, token_ids: tuple[int, ...]) -> Opening:
        layout = session.layout(token_ids)
        placements = session.standing(layout.placements) if ticket.reads else ()
        return Opening(
            layout=layout,
            placements=placements,
            events=tuple(event for placement in placements for event in session.events(placement)),
            looks=ticket.reads and self._may_hold(session),
        )

    def _opened(
        self, recv_req: Any, ticket: Ticket, session: Session, token_ids: tuple[int, ...], opening: Opening
    ) -> Reading:
        if isinstance(session, ToldSession):
            session.learn(opening.events)
        reading = self._reading(ticket, session, token_ids, opening.layout, opening.placements)
        if opening.looks:
            reading.original = seams.copied(recv_req)
            if self.memory.profile.options.recall_while_decoding:
                reading.later = Later(arrived=reading.original)
        else:
            session.record(token_ids, reading.placements)
        return reading

    def _reading(
        self,
        ticket: Ticket,
        session: Session,
        token_ids: tuple[int, ...],
        layout: Layout,
        placements: tuple[Placement, ...],
    ) -> Reading:
        sequence = session.sequence(token_ids, placements)
        if len(sequence.token_ids) + ticket.max_new_tokens >= self.scheduler.max_req_len:
            placements, sequence = (), session.sequence(token_ids, ())
        return Reading(
            ticket=ticket, session=session, token_ids=token_ids, layout=layout, placements=placements, sequence=sequence
        )

    def _may_hold(self, session: Session) -> bool:
        """Whether there can be anything to recall: an empty memory costs nothing."""
        return any(of in session.reads for of, _ in self._writes) or not session.is_empty()

    def expect(self, recv_req: Any, reading: Reading) -> None:
        """Have a reading ready for when its request is queued."""
        recv_req.input_ids = array("q", reading.sequence.token_ids)
        self.arriving[recv_req.rid] = reading
        while len(self.arriving) > MAX_ARRIVING:
            self.arriving.popitem(last=False)

    def plan(self, reading: Reading) -> bool:
        """Votes and plan for a reading whose cue is kept; True if it is to be read again.

        All that can fail is done here: what is left is to end the request (`decide`).
        """
        cue, reading.cue = reading.cue, None
        reading.is_planned = True
        if cue is None and self.ranks.size == 1:
            return False  # it failed, and was logged; of several ranks, the others have to hear of it
        whole = self._whole(reading, cue)
        decision = self.ranks.told(DECISION, lambda: self._decided(reading, whole))
        if not decision.recalls:
            if reading.recording is not None:
                reading.recording.forget_heads()
            reading.report = decision.report
            return False
        again = self.ranks.agreed(lambda: self._again(reading, decision))
        reading.again = again
        return True

    def decide(self, req: Any, reading: Reading) -> None:
        """The prompt of a looking request is read: make its plan, and end the request if it is to be read again."""
        original, reading.original = reading.original, None
        if not reading.is_planned:
            self.plan(reading)
        if reading.again is not None:
            self.expect(original, reading.again)
            self.ended[req.rid] = original
            seams.end_unheard(req)
        elif reading.report is not None:
            req.customized_info = {**(req.customized_info or {}), KEY: [reading.report]}

    def _whole(self, reading: Reading, cue: Cue | None) -> Cue | None:
        """The cue of all voters, on the first rank; None on the others."""

        def mine() -> tuple[torch.Tensor, torch.Tensor]:
            if cue is None:
                raise RankError("the cue of this rank's voters is not there; the log says why, look above")
            if reading.cue_copied is not None:
                reading.cue_copied.synchronize()
            return cue.queries, cue.context_lse

        if self.ranks.size == 1:
            return cue
        parts = self.ranks.gathered(mine)
        if parts is None:
            return None
        cues = [Cue(queries=queries, context_lse=context_lse) for queries, context_lse in parts]
        return self.shards.joined_cue(self.memory.profile.voters, cues)

    def _decided(self, reading: Reading, cue: Cue | None) -> Decision:
        assert cue is not None
        session = reading.session
        plan, vote_ms = self._plan(reading, cue)
        if not plan.events:
            session.record(reading.token_ids, reading.placements)
            return Decision(report=of_prompt(reading, plan, self.scheduler.tokenizer.decode, vote_ms))
        placements = session.placed(reading.layout, plan)
        again = self._reading(reading.ticket, session, reading.token_ids, reading.layout, placements)
        return Decision(
            report=of_prompt(again, plan, self.scheduler.tokenizer.decode, vote_ms),
            placements=placements,
            events=tuple(event for placement in placements for event in session.events(placement)),
        )

    def _again(self, reading: Reading, decision: Decision) -> Reading:
        session = reading.session
        if isinstance(session, ToldSession):
            session.learn(decision.events)
        again = self._reading(reading.ticket, session, reading.token_ids, reading.layout, decision.placements)
        session.record(again.token_ids, again.placements)
        again.report, again.later = decision.report, reading.later
        return again

    def read_again(self, req: Any) -> None:
        """Queue a request that ended with its plan once more, in front of those that were never begun."""
        original = self.ended.pop(req.rid)
        self.scheduler.handle_generate_request(original)
        queue = self.scheduler.waiting_queue
        if queue and queue[-1].rid == req.rid:
            queue.insert(0, queue.pop())

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
        """Start copying off the cue of a request whose prompt is read; `row` holds the KV slots of its whole sequence.

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
        """The cue of the voters that this rank has."""
        geometry, voters = self._mine
        asked = {layer: torch.cat(parts) for layer, parts in reading.queries.items()}
        num_queries = len(next(iter(asked.values())))
        if not voters.heads:
            return Cue(
                queries=row.new_empty(0, num_queries, geometry.head_dim, dtype=torch.float32),
                context_lse=row.new_empty(0, num_queries, dtype=torch.float32),
            )
        own = {layer: read(self.kv_pool.get_key_buffer(layer), row) for layer in voters.layers}
        queries, keys = gather(asked, own, geometry, voters)
        return build_cue(
            queries,
            keys,
            geometry,
            voters,
            first_query=len(reading.sequence.token_ids) - num_queries,
            start=reading.new_position,
        )

    def harvest(self, row: torch.Tensor, runs: Sequence[Run]) -> Harvest | None:
        """Copy keys and values off the slots `row`, of all heads; None on other ranks than the first."""
        profile = self.memory.profile
        if self.ranks.size == 1:
            # On a GPU making what voters read costs nothing; otherwise it is made in the background, from the traces.
            return Harvest(self.kv_pool, profile.geometry, row, runs, profile.voters if row.is_cuda else None)
        made: list[Harvest] = []

        def mine() -> tuple[torch.Tensor, torch.Tensor]:
            made.append(Harvest(self.kv_pool, profile.geometry, row, runs))
            return made[0].parts()

        parts = self.ranks.gathered(mine)
        if parts is None:
            return None
        keys, values = (self.shards.joined(of_all) for of_all in zip(*parts, strict=True))
        made[0].replace(keys, values)
        return made[0]

    def span(self, reading: Reading, placement: Placement, position: int) -> Span:
        """What a placement leaves in the layers where it stands at `position`: of this rank's heads, on the CPU."""
        if self.ranks.size == 1:
            return reading.session.span(placement, position)

        def parts() -> list[tuple[torch.Tensor, torch.Tensor]]:
            span = reading.session.span(placement, position)
            return list(zip(self.shards.cut(span.keys), self.shards.cut(span.values), strict=True))

        keys, values = self.ranks.scattered(parts)
        events = reading.session.events(placement)
        return Span(
            position=position,
            token_ids=tuple(token for event in events for token in event.token_ids),
            keys=keys,
            values=values,
        )

    def way(self, num_tokens: int) -> Way:
        """How a span of `num_tokens` is to come back."""
        if self.reinstate == "reread":
            return "reread"
        if self.reinstate != "auto":
            return self.memory.way(num_tokens)
        return self.ranks.told(WAY, lambda: self.memory.way(num_tokens))

    def _plan(self, reading: Reading, cue: Cue) -> tuple[Plan, float]:
        """The plan, and the milliseconds that it took."""
        started, account = time.perf_counter(), reading.session.account
        with account.clock.measure("wait"):
            if reading.cue_copied is not None:
                reading.cue_copied.synchronize()
            self.settle(*reading.session.reads)
        room = self.scheduler.max_req_len - len(reading.sequence.token_ids) - reading.ticket.max_new_tokens - 1
        plan = reading.session.plan(cue, reading.token_ids, reading.layout, max(0, room))
        account.clock.add("probe", time.perf_counter() - account.opened)
        return plan, (time.perf_counter() - started) * 1e3


_runtime: Runtime | None = None


def install(runtime: Runtime | None) -> None:
    """Make `runtime` the one that the hooks of this process use."""
    global _runtime
    _runtime = runtime


def current() -> Runtime | None:
    """The runtime of this process; None in a process, or for a model, without memory."""
    return _runtime
