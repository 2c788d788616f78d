"""The only door for engines: open a memory, take a session of a namespace, and walk a request through it.

    layout    where the request's new part begins, and which spans its earlier turns stand behind
    plan      the cue's votes become the events to reinstate
    sequence  the request's token ids with every span's ids in place
    span      the keys and values of one placement, rotated to where they stand
    observe   what was read and written becomes events

An engine calls these inside `Memory.guard`, so that whatever fails here costs the recall and never the request.
"""

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from v14.config import Switches
from v14.errors import StoreError, TraceCorruptError
from v14.events.cut import UNWRITTEN_ROLES, Cutter
from v14.profile import Profile
from v14.recall.index import Index
from v14.recall.plan import make_plan
from v14.recall.votes import voter_keys
from v14.reinstate.rotation import move_keys
from v14.reinstate.span import build_span
from v14.reinstate.transcripts import Placement, Transcripts
from v14.store.contract import Store
from v14.store.directory import DirectoryStore
from v14.types import Cue, Event, Plan, Span, Trace

logger = logging.getLogger("v14")

DEFAULT_NAMESPACE = "default"
GIB = 2**30

ReadKV = Callable[[int, int], tuple[torch.Tensor, torch.Tensor]]
"""Keys and values `[L, T, H, D]` on the CPU of sequence positions [start, end), keys as the engine rotated them."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a prompt is to be read: `new_start` is the index in its real token ids where the new part begins,
    `placements` are the spans of its chat's earlier turns."""

    new_start: int
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SpannedSequence:
    """Token ids with spans in place; `positions[i]` is where real token i stands, `starts[k]` where span k begins."""

    token_ids: tuple[int, ...]
    positions: tuple[int, ...]
    starts: tuple[int, ...]


@dataclass(kw_only=True)
class Space:
    """One namespace in memory: its events by id, in order of insertion, and the index that votes on them."""

    index: Index
    events: dict[str, Event] = field(default_factory=dict)

    def add(self, event: Event, keys: torch.Tensor) -> None:
        """Add an event with its voter keys `[U, T, D]`."""
        self.events[event.id] = event
        self.index.add(event.id, keys)

    def lookup(self, ids: Sequence[str]) -> list[Event]:
        """Events by id. Raises `KeyError` for one that is not here."""
        return [self.events[event_id] for event_id in ids]


class Memory:
    """Everything remembered by one set of weights, for one process."""

    def __init__(self, profile: Profile, switches: Switches, store: Store | None, reason: str = "") -> None:
        self.profile = profile
        self.switches = switches
        self.counters: Counter[str] = Counter()
        self.transcripts = Transcripts()
        self.cutter = Cutter(
            turns=profile.turns, sentence_ends=profile.sentence_ends, event_tokens=profile.options.event_tokens
        )
        self.reason = reason
        self._store = store
        self._spaces: OrderedDict[str, Space] = OrderedDict()
        self.lock = threading.RLock()

    @classmethod
    def open(cls, profile: Profile, switches: Switches, *, store: Store | None = None) -> "Memory":
        """Open the store under `switches.memory_home`, unless one is given.

        A store that cannot be opened leaves a memory that is not `available`: the server serves without it.
        """
        if store is None:
            try:
                store = DirectoryStore.open(switches.memory_home, profile.weights_id)
            except StoreError as error:
                logger.error("memory is off: %s", error)
                memory = cls(profile, switches, None, str(error))
                memory.counters["store_unavailable"] += 1
                return memory
        return cls(profile, switches, store)

    @property
    def available(self) -> bool:
        """Whether there is a store to recall from and to write to."""
        return self._store is not None

    @property
    def store(self) -> Store:
        """The store. Raises `StoreError` when there is none."""
        if self._store is None:
            raise StoreError(self.reason)
        return self._store

    def session(self, namespace: str = DEFAULT_NAMESPACE) -> "Session":
        """The view that a request of `namespace` has."""
        return Session(self, namespace)

    @contextmanager
    def guard(self, concern: str) -> Iterator[None]:
        """Whatever fails inside is counted under `concern` and logged; the request goes on without it."""
        try:
            yield
        except Exception as error:
            with self.lock:
                self.counters[f"failed_{concern}"] += 1
            logger.exception("%s failed, the request goes on without it: %s", concern, error)

    def space(self, namespace: str) -> Space:
        """The events of a namespace and their voter keys, read from the store when it is first asked for."""
        with self.lock:
            space = self._spaces.get(namespace)
            if space is None:
                space = Space(index=Index(self.profile.geometry, self.profile.voters))
                for event in self.store.events(namespace):
                    self._read_into(space, event)
                self._spaces[namespace] = space
            self._spaces.move_to_end(namespace)
            while len(self._spaces) > 1 and self._index_bytes() > self.switches.max_buffer_gb * GIB:
                self._spaces.popitem(last=False)
            return space

    def _index_bytes(self) -> int:
        return sum(space.index.num_bytes for space in self._spaces.values())

    def _read_into(self, space: Space, event: Event) -> None:
        slots = self.profile.voters.slots(self.profile.geometry)
        try:
            keys = self.store.keys_of_layers(event.namespace, event.id, slots)
        except TraceCorruptError as error:
            self.counters["corrupt_events"] += 1
            logger.warning("event left out of the index: %s", error)
            return
        space.add(event, voter_keys(keys, self.profile.geometry, self.profile.voters))

    def close(self) -> None:
        """Commit what is pending and close the store."""
        if self._store is not None:
            self._store.close()


class Session:
    """One namespace's view of a memory: nothing of another namespace can be reached through it."""

    def __init__(self, memory: Memory, namespace: str) -> None:
        self.memory = memory
        self.namespace = namespace

    def layout(self, token_ids: Sequence[int]) -> Layout:
        """Where the new part of a prompt begins: behind the last reply, or behind the system's words."""
        turns = self.memory.cutter.turns.turns(token_ids)
        new_start = 0
        prefixes = []
        for turn, following in zip(turns, [*turns[1:], None], strict=True):
            if turn.role == "assistant" and following is not None and turn.closing_start > turn.content_start:
                new_start = following.start
                prefixes.append(turn.content_start)
            elif (
                turn.role in UNWRITTEN_ROLES and following is not None and (turn is turns[0] or new_start == turn.start)
            ):
                new_start = following.start
            elif turn is turns[0] and new_start == 0:
                new_start = turn.start
        placements = self.memory.transcripts.find(self.namespace, token_ids, prefixes)
        return Layout(new_start=new_start, placements=placements)

    def is_empty(self) -> bool:
        """Whether nothing is stored in this namespace."""
        return not self.memory.space(self.namespace).events

    def plan(self, cue: Cue, token_ids: Sequence[int], layout: Layout, room_tokens: int | None = None) -> Plan:
        """Votes of the namespace's events for the cue, cut to the options and to `room_tokens`."""
        options = self.memory.profile.options
        budget = options.recall_budget_tokens if room_tokens is None else min(options.recall_budget_tokens, room_tokens)
        space = self.memory.space(self.namespace)
        with self.memory.lock:
            votes = space.index.votes(cue)
        placed = {event_id for placement in layout.placements for event_id in placement.event_ids}
        candidates = [vote for vote in votes if vote.event_id not in placed]
        plan = make_plan(candidates, space.lookup, options, token_ids, budget, order=space.index.order)
        if plan.events:
            self.memory.store.touch(self.namespace, [event.id for event in plan.events], time.time())
        self.memory.counters["plans_recalling" if plan.events else "plans_empty"] += 1
        if self.memory.switches.trace:
            recalled = [event.id for event in plan.events]
            logger.info(
                "trace namespace=%s votes=%s recalled=%s reason=%s", self.namespace, plan.votes, recalled, plan.reason
            )
        return plan

    def events(self, placement: Placement) -> Sequence[Event]:
        """The events of a placement. Raises `KeyError` for one that is not in this namespace."""
        events = self.memory.space(self.namespace).events
        return [events[event_id] for event_id in placement.event_ids]

    def placed(self, layout: Layout, plan: Plan) -> tuple[Placement, ...]:
        """The layout's placements and, behind them, the plan's in front of the new part."""
        if not plan.events:
            return layout.placements
        return (*layout.placements, Placement(index=layout.new_start, event_ids=tuple(e.id for e in plan.events)))

    def sequence(self, token_ids: Sequence[int], placements: Sequence[Placement]) -> SpannedSequence:
        """The real token ids with the spans' ids in place."""
        ids: list[int] = []
        positions: list[int] = []
        starts: list[int] = []
        done = 0
        for placement in placements:
            positions.extend(range(len(ids), len(ids) + placement.index - done))
            ids.extend(token_ids[done : placement.index])
            done = placement.index
            starts.append(len(ids))
            for event in self.events(placement):
                ids.extend(event.token_ids)
        positions.extend(range(len(ids), len(ids) + len(token_ids) - done))
        ids.extend(token_ids[done:])
        return SpannedSequence(token_ids=tuple(ids), positions=tuple(positions), starts=tuple(starts))

    def span(self, placement: Placement, position: int) -> Span:
        """Token ids, keys and values of a placement standing at `position`, on the CPU."""
        store = self.memory.store
        events = self.events(placement)
        traces = [store.trace(self.namespace, event.id) for event in events]
        return build_span(events, traces, self.memory.profile.geometry, position)

    def record(self, token_ids: Sequence[int], placements: Sequence[Placement]) -> None:
        """Note how a prompt was read, for the turns that will follow it."""
        self.memory.transcripts.record(self.namespace, token_ids, placements)

    def observe(self, token_ids: Sequence[int], positions: Sequence[int], read_kv: ReadKV, chat_id: str = "") -> int:
        """Store the events of `token_ids` that are not known yet; returns how many.

        `positions[i]` is where token i stood in the sequence that `read_kv` reads from; spans stand only between turns,
        so the tokens of one event are neighbours there. Ids whose KV does not exist (the last sampled token) are left
        out by the caller.
        """
        memory = self.memory
        cuts = memory.cutter.cut(token_ids, namespace=self.namespace, said_at=time.time(), chat_id=chat_id)
        space = memory.space(self.namespace)
        known = memory.store.has(self.namespace, [cut.event.id for cut in cuts])
        new: list[tuple[Event, Trace]] = []
        for cut in cuts:
            if cut.event.id in known:
                continue
            start = positions[cut.start]
            keys, values = read_kv(start, start + cut.event.num_tokens)
            trace = Trace(
                keys=move_keys(keys, memory.profile.geometry, -start).contiguous(), values=values.contiguous()
            )
            new.append((cut.event, trace))
            known.add(cut.event.id)
        if new:
            memory.store.put(new)
            slots = memory.profile.voters.slots(memory.profile.geometry)
            with memory.lock:
                for event, trace in new:
                    space.add(event, voter_keys(trace.keys[slots], memory.profile.geometry, memory.profile.voters))
            memory.counters["events_stored"] += len(new)
        return len(new)
