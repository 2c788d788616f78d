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
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import torch

from v14.clock import Clock, Listener
from v14.codecs.form import Form
from v14.config import Switches
from v14.engram import compress
from v14.errors import StoreError, StoreUnavailableError
from v14.events.cut import UNWRITTEN_ROLES, Cut
from v14.explain import Account, Records
from v14.home import SharedHome
from v14.namespaces import DEFAULT_NAMESPACE
from v14.profile import Profile
from v14.recall.ballot import Ballot
from v14.recall.neighbours import Neighbours
from v14.recall.plan import TRACED_VOTES, make_plan
from v14.recall.space import Reach, Space, Spaces
from v14.recall.votes import voter_keys
from v14.recall.weighing import MAX_WEIGHED
from v14.reinstate.cost import CostBook, Way
from v14.reinstate.journal import Journal
from v14.reinstate.layout import Layout, SpannedSequence, new_part, with_spans
from v14.reinstate.rotation import move_keys
from v14.reinstate.span import build_span
from v14.reinstate.transcripts import Placement, Transcripts
from v14.store import view
from v14.store.contract import Store
from v14.store.keeping import Keeping
from v14.store.master import master_key
from v14.store.opening import open_store
from v14.types import Cue, Engram, Event, Plan, Span, Trace, Vote

logger = logging.getLogger("v14")

CORRECTING_ROLES = frozenset({"user", "text"})
"""Roles whose statements correct what they said before: replies do not."""

GIB = 2**30
DAY_S = 86_400.0

ReadKV = Callable[[int, int], tuple[torch.Tensor, torch.Tensor]]
"""Keys and values `[L, T, H, D]` on the CPU of sequence positions [start, end), keys as the engine rotated them."""

ReadEngram = Callable[[int, int], Engram | None]
"""What sequence positions [start, end) did to the recurrent states, at full rank, on the CPU; None if not captured."""


class Memory:
    """Everything remembered by one set of weights, for one process."""

    def __init__(
        self,
        profile: Profile,
        switches: Switches,
        store: Store | None,
        reason: str = "",
        *,
        device: torch.device | str = "cpu",
    ) -> None:
        """`device` is where votes are taken."""
        self.profile = profile
        self.switches = switches
        self.counters: Counter[str] = Counter()
        self.listeners: list[Listener] = []
        self.records = Records()
        self.transcripts = Transcripts()
        self.journal = Journal()
        self.costs = CostBook()
        self.cutter = profile.cutter
        self.asks = profile.asking
        self.device = torch.device(device)
        self.reason = reason
        self._store = store
        self._spaces: Spaces | None = None
        if store is not None:
            max_bytes = switches.max_buffer_gb * GIB
            self._spaces = Spaces(profile.geometry, profile.voters, store, max_bytes, self.counters, device)
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        profile: Profile,
        switches: Switches,
        *,
        store: Store | None = None,
        device: torch.device | str = "cpu",
    ) -> "Memory":
        """Open the store under `switches.memory_home`, unless one is given; `device` is where votes are taken.

        A store that cannot be opened leaves a memory that is not `available`: the server serves without it. An
        encrypted one without its key raises `StoreKeyError`.
        """
        if store is None:
            master = master_key(switches)
            try:
                store = open_store(
                    switches.memory_home, profile.weights_id, keeping=keeping_of(profile, switches), master=master
                )
            except StoreError as error:
                logger.error("memory is off: %s", error)
                memory = cls(profile, switches, None, str(error))
                memory.counters["store_unavailable"] += 1
                return memory
        return cls(profile, switches, store, device=device)

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

    def session(
        self, namespace: str = DEFAULT_NAMESPACE, shared: Sequence[str] = (), *, request_id: str = ""
    ) -> "Session":
        """The view that a request of `namespace` has, which may read the namespaces `shared` as well.

        A request that has an id can be explained later (`records`).
        """
        return Session(self, namespace, shared, request_id)

    def space(self, namespace: str) -> Space:
        """The events of a namespace and the index that votes on them. Raises `StoreError` when there is no store."""
        if self._spaces is None:
            raise StoreError(self.reason)
        return self._spaces.get(namespace)

    def forget(self, namespace: str, ids: Collection[str], *, selection: str = "event", requested_by: str = "") -> int:
        """Take events of a namespace out of all that is kept here, in memory and on disk; returns how many there were.

        What is being read at the moment may come to be stored later: the caller ends or waits for it first. `selection`
        and `requested_by` go into the store's audit. Raises `StoreError` when the store cannot do it; the events are
        then not recalled any more until the next start.
        """
        self.drop(namespace, ids)
        num_events = self.store.forget(namespace, ids, selection=selection, requested_by=requested_by)
        self.counters["events_forgotten"] += num_events
        return num_events

    def drop(self, namespace: str, ids: Collection[str]) -> None:
        """Take events of a namespace out of what is kept beside the store."""
        if self._spaces is not None:
            self._spaces.forget(namespace, ids)
        self.transcripts.forget(namespace, ids)
        self.journal.forget(namespace, ids)
        self.records.forget(namespace, ids)

    def way(self, num_tokens: int) -> Way:
        """How to bring back a span of `num_tokens`: as the options say, `auto` by what `costs` was told.

        A model of which a trace is not all that an event leaves (`Geometry.placeable`) always reads again.
        """
        wanted = self.profile.options.reinstate if self.profile.geometry.placeable else "reread"
        return self.costs.choose(num_tokens) if wanted == "auto" else wanted

    def engram(
        self, start: int, end: int, read_engram: ReadEngram | None, dtype: torch.dtype | None = None
    ) -> Engram | None:
        """The engram to keep of sequence positions [start, end), at the options' rank in `dtype`; None for rank 0."""
        rank = self.profile.options.engram_rank
        if read_engram is None or rank == 0:
            return None
        engram = read_engram(start, end)
        return None if engram is None else compress(engram, rank, dtype=dtype)

    @contextmanager
    def guard(self, concern: str) -> Iterator[None]:
        """Whatever fails inside is counted under `concern` and logged; the request goes on without it."""
        try:
            yield
        except Exception as error:
            with self._lock:
                self.counters[f"failed_{concern}"] += 1
            logger.exception("%s failed, the request goes on without it: %s", concern, error)

    def close(self) -> None:
        """Commit what is pending and close the store."""
        if self._store is not None:
            self._store.close()


def keeping_of(profile: Profile, switches: Switches) -> Keeping:
    """What the options and the environment say of the store. Keys of the voters' layers, which votes read, are never
    in less than 8 bits."""
    options, slots = profile.options, tuple(profile.voters.slots(profile.geometry))
    only = slots if options.trace == "voters" else None
    return Keeping(
        form=Form(codec=options.trace_codec, fine=slots, only=only),
        idle=Form(codec=options.idle_trace_codec, fine=slots, only=only),
        idle_s=options.idle_days * DAY_S,
        max_bytes=None if switches.max_store_gb is None else int(switches.max_store_gb * GIB),
        sync=switches.fsync,
    )


def check_store(switches: Switches, weights_id: str) -> None:
    """Before anything is started: raise `StoreKeyError` for a key that is none or not the store's.

    That of a shared store is checked when it is opened.
    """
    master = master_key(switches)
    if not isinstance(switches.memory_home, SharedHome):
        with suppress(StoreError):  # the store says so itself when it is opened, and the server goes on without memory
            view.check_key(switches.memory_home, weights_id, master)


class Session:
    """What a request of one namespace sees of a memory: nothing of any other but the `shared` ones can be reached.

    It reads its own and the shared namespaces, in this order, and writes to its own.
    """

    def __init__(self, memory: Memory, namespace: str, shared: Sequence[str] = (), request_id: str = "") -> None:
        self.memory = memory
        self.namespace = namespace
        self.reads = tuple(dict.fromkeys((namespace, *shared)))
        self.account = Account(memory.records, memory.listeners, request_id, trace=memory.switches.trace)

    @property
    def clock(self) -> Clock:
        """Where the request's times are noted."""
        return self.account.clock

    @property
    def reach(self) -> Reach:
        """The spaces that are read. Raises `StoreError` when there is no store."""
        return Reach({namespace: self.memory.space(namespace) for namespace in self.reads})

    def layout(self, token_ids: Sequence[int]) -> Layout:
        """Where the new part of a prompt begins, and the spans that its chat's earlier turns stand behind."""
        new_start, prefixes = new_part(self.memory.cutter.turns.turns(token_ids), UNWRITTEN_ROLES)
        placements = self.memory.transcripts.find(self.namespace, token_ids, prefixes)
        return Layout(new_start=new_start, placements=self.standing(placements))

    def is_empty(self) -> bool:
        """Whether nothing is stored that could be recalled."""
        return not self.reach

    def plan(self, cue: Cue, token_ids: Sequence[int], layout: Layout, room_tokens: int | None = None) -> Plan:
        """Votes of the events that are read for the cue, cut to the options and to `room_tokens`."""
        options = self.memory.profile.options
        budget = options.recall_budget_tokens if room_tokens is None else min(options.recall_budget_tokens, room_tokens)
        with self.clock.measure("load"):
            reach = self.reach
        with self.clock.measure("vote"):
            ballot = reach.votes(cue)
            placed = {event_id for placement in layout.placements for event_id in placement.event_ids}
            candidates = ballot.best(MAX_WEIGHED, without=placed)
        votes = _but(placed, ballot)
        with self.clock.measure("choose"):
            plan = self._chosen(candidates, votes, reach, token_ids, layout, budget)
            while self._drop_expired(plan.events):
                plan = self._chosen(candidates, votes, reach, token_ids, layout, budget)
        for namespace, ids in _by_namespace(plan.events).items():
            self.memory.store.touch(namespace, ids, time.time())
        self.memory.counters["plans_recalling" if plan.events else "plans_empty"] += 1
        self.memory.counters["events_recalled"] += len(plan.events)
        self.memory.counters["tokens_recalled"] += len(plan.token_ids)
        with self.memory.guard("explain"):
            self._explain(cue, token_ids, layout, plan, reach)
        return plan

    def _explain(self, cue: Cue, token_ids: Sequence[int], layout: Layout, plan: Plan, reach: Reach) -> None:
        """Note the plan, with what the cue's tokens gave to what is recalled, or to the best vote where nothing is."""
        asked = [event.id for event in plan.events][:TRACED_VOTES] or [vote.event_id for vote in plan.votes[:1]]
        options = self.memory.profile.options

        def weigh() -> dict[str, torch.Tensor]:
            return {event_id: reach.token_weights(cue, event_id) for event_id in asked if event_id in reach}

        self.account.decided(self.namespace, token_ids, layout.new_start, plan, options, weigh)

    def _chosen(
        self,
        candidates: Sequence[Vote],
        votes: Callable[[Collection[str]], Mapping[str, float]],
        reach: Reach,
        token_ids: Sequence[int],
        layout: Layout,
        budget_tokens: int,
    ) -> Plan:
        options, overlap = self.memory.profile.options, reach.overlap(token_ids[layout.new_start :])
        return make_plan(
            candidates,
            reach.lookup,
            options,
            token_ids,
            budget_tokens,
            order=reach.order,
            overlap=overlap,
            votes=votes,
            asks=self.memory.asks,
            superseded=None if self.memory.profile.asks_history(token_ids[layout.new_start :]) else reach.superseded,
            neighbours=Neighbours(
                before=reach.before, after=reach.after, sentence_ends=self.memory.profile.sentence_ends
            ),
        )

    def _drop_expired(self, events: Sequence[Event]) -> bool:
        """Take events out of the index that the store has let go of by itself (expired, evicted); whether there were.

        Their traces could not be read; but to be read again, their token ids would do.
        """
        found = False
        for namespace, ids in _by_namespace(events).items():
            gone = set(ids) - self.memory.store.has(namespace, ids)
            if gone:
                self.memory.drop(namespace, gone)
                found = True
        return found

    def events(self, placement: Placement) -> Sequence[Event]:
        """The events of a placement. Raises `KeyError` for one that is not read."""
        return self.reach.lookup(placement.event_ids)

    def standing(self, placements: Iterable[Placement]) -> tuple[Placement, ...]:
        """The placements as far as their events can be read: not forgotten meanwhile, nor shared no longer."""
        reach = self.reach
        known = [replace(p, event_ids=tuple(e for e in p.event_ids if e in reach)) for p in placements]
        return tuple(placement for placement in known if placement.event_ids)

    def placed(self, layout: Layout, plan: Plan) -> tuple[Placement, ...]:
        """The layout's placements and, behind them, the plan's in front of the new part."""
        if not plan.events:
            return layout.placements
        return (*layout.placements, Placement(index=layout.new_start, event_ids=tuple(e.id for e in plan.events)))

    def sequence(self, token_ids: Sequence[int], placements: Sequence[Placement]) -> SpannedSequence:
        """The real token ids with the spans' ids in place."""
        return with_spans(token_ids, placements, self.reach.lookup)

    def span(self, placement: Placement, position: int) -> Span:
        """Token ids, keys and values of a placement standing at `position`, on the CPU."""
        store = self.memory.store
        events = self.events(placement)
        with self.clock.measure("fetch"):
            traces = [store.trace(event.namespace, event.id) for event in events]
        with self.clock.measure("turn"):
            return build_span(events, traces, self.memory.profile.geometry, position)

    def record(self, token_ids: Sequence[int], placements: Sequence[Placement]) -> None:
        """Note how a prompt was read, for the turns that will follow it, and what was recalled for it."""
        self.memory.transcripts.record(self.namespace, token_ids, placements)
        if self.account.request_id:
            events = (event for placement in placements for event in self.events(placement))
            recalled = [(event.namespace, event.id) for event in events]
            self.memory.journal.recalled(self.account.request_id, self.namespace, recalled)

    def unknown(self, token_ids: Sequence[int], chat_id: str = "") -> list[Cut]:
        """The events of `token_ids` that are not stored yet, in order, each once."""
        return self.new(
            self.memory.cutter.cut(token_ids, namespace=self.namespace, said_at=time.time(), chat_id=chat_id)
        )

    def new(self, cuts: Sequence[Cut]) -> list[Cut]:
        """Those of `cuts` that are not stored yet, in order, each once."""
        known = self.memory.store.has(self.namespace, [cut.event.id for cut in cuts])
        new = {cut.event.id: cut for cut in reversed(cuts) if cut.event.id not in known}
        return sorted(new.values(), key=lambda cut: cut.start)

    def observe(
        self,
        token_ids: Sequence[int],
        positions: Sequence[int],
        read_kv: ReadKV,
        chat_id: str = "",
        read_engram: ReadEngram | None = None,
    ) -> int:
        """Store the events of `token_ids` that are not known yet; returns how many.

        `positions[i]` is where token i stood in the sequence that `read_kv` reads from; spans stand only between turns,
        so the tokens of one event are neighbours there. Ids whose KV does not exist (the last sampled token) are left
        out by the caller.
        """
        memory = self.memory
        new: list[tuple[Event, Trace]] = []
        for cut in self.unknown(token_ids, chat_id):
            start = positions[cut.start]
            keys, values = read_kv(start, start + cut.event.num_tokens)
            trace = Trace(
                keys=move_keys(keys, memory.profile.geometry, -start).contiguous(),
                values=values.contiguous(),
                engram=memory.engram(start, start + cut.event.num_tokens, read_engram, keys.dtype),
            )
            new.append((cut.event, trace))
        return self.keep(new)

    def keep(self, traced: Sequence[tuple[Event, Trace]], views: Mapping[str, torch.Tensor] | None = None) -> int:
        """Store the events that are not known yet; returns how many. Safe to call beside everything else.

        `views` are what voters read of them (`votes.voter_keys`), by id, where that is known already.
        """
        memory = self.memory
        known = memory.store.has(self.namespace, [event.id for event, _ in traced])
        new = [(event, trace) for event, trace in traced if event.id not in known]
        if new:
            space = None
            with suppress(StoreUnavailableError):  # then it takes them in when it is read again
                space = memory.space(self.namespace)
            memory.store.put(new)
            memory.counters["events_stored"] += len(new)
            if space is not None:
                geometry, voters = memory.profile.geometry, memory.profile.voters
                slots = voters.slots(geometry)
                made = views or {e.id: voter_keys(trace.keys[slots], geometry, voters) for e, trace in new}
                space.add_all([event for event, _ in new], [made[event.id] for event, _ in new])
                with memory.guard("corrections"):
                    self._correct(space, [event for event, _ in new])
            memory.journal.wrote(self.account.request_id, self.namespace, [event.id for event, _ in new])
        return len(new)

    def _correct(self, space: Space, new: Sequence[Event]) -> None:
        """Link what was told anew with what it corrects."""
        told = [event for event in new if event.role in CORRECTING_ROLES and not self.memory.asks(event)]
        links = [link for event in told for link in space.corrections(event, self.memory.profile.says_change)]
        if links:
            space.link(links)
            self.memory.store.link(self.namespace, links)
            self.memory.counters["corrections_linked"] += len(links)


def _but(placed: Collection[str], ballot: Ballot) -> Callable[[Collection[str]], Mapping[str, float]]:
    """The votes of events but those that stand in the conversation already."""
    return lambda ids: ballot.of(set(ids) - set(placed))


def _by_namespace(events: Iterable[Event]) -> dict[str, list[str]]:
    """Ids of events by where they are stored."""
    found: dict[str, list[str]] = {}
    for event in events:
        found.setdefault(event.namespace, []).append(event.id)
    return found
