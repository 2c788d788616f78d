"""The memory beside the engine's pools, in the scheduler process: what the stations of a request share.

    arriving   what is in place already is put into its token ids, its reading is opened
    cues       its first pass: queries at the voters become a cue on the CPU
    planning   votes and plan; a request that recalls ends, and is queued again
    returning  which way its span comes back, and what is placed
    harvest    keys and values of what it read, when it ends

The hooks call them, each with the `Runtime` of the process. Everything runs on the scheduler's own thread: the radix
tree, the allocators and the pools have no locks. Only what was copied off them is stored by a thread in the background.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import torch

from v14.engines.sglang import seams
from v14.engines.sglang.passes import Pass
from v14.engines.sglang.ranks import Ranks
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.recording import Noting
from v14.engines.sglang.recurrent import StatePool
from v14.engines.sglang.shards import Shards
from v14.engines.sglang.timing import Timer
from v14.geometry import Geometry
from v14.memory import Memory
from v14.recall.voters import Voters

MAX_WRITES = 8
"""Finished requests whose copies may wait to be stored; they keep pinned memory."""


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
        is_parted = self.state_pool is not None and self.states is None
        self.reinstate = "reread" if is_parted else memory.profile.options.reinstate
        # Only `auto` has a choice to make, and needs to know what reading again costs.
        self.timer = Timer() if self.reinstate == "auto" and self.ranks.leads else None
        self.rereading: WeakValueDictionary[str, Any] = WeakValueDictionary()

        self._writer = ThreadPoolExecutor(1, thread_name_prefix="v14-observe")
        self._writes: deque[tuple[str, Future[None]]] = deque()

    @cached_property
    def own_part(self) -> tuple[Geometry, Voters]:
        """The model and its voters as this rank has them."""
        geometry, voters = self.memory.profile.geometry, self.memory.profile.voters
        if self.ranks.size == 1:
            return geometry, voters
        return self.shards.geometry(geometry), self.shards.voters(voters, self.ranks.rank)[0]

    def write_behind(self, namespace: str, write: Callable[[], None]) -> None:
        """Store something in the background; `write` handles its own errors."""
        self._writes.append((namespace, self._writer.submit(write)))
        while len(self._writes) > MAX_WRITES:
            self._writes.popleft()[1].result()

    @property
    def num_waiting(self) -> int:
        """Finished requests whose events are still to be made."""
        return sum(not write.done() for _, write in tuple(self._writes))

    def is_writing(self, namespaces: Iterable[str]) -> bool:
        """Whether something of these namespaces waits to be stored."""
        return any(of in namespaces for of, _ in self._writes)

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


_runtime: Runtime | None = None


def install(runtime: Runtime | None) -> None:
    """Make `runtime` the one that the hooks of this process use."""
    global _runtime
    _runtime = runtime


def current() -> Runtime | None:
    """The runtime of this process; None in a process, or for a model, without memory."""
    return _runtime
