"""What a request sees of a memory: the plan made for it, the spans in its sequence, the events made of it."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from v14.clock import Clock
from v14.errors import StoreUnavailableError
from v14.events.cut import UNWRITTEN_ROLES, Cut
from v14.explain import Account
from v14.recall.ballot import Ballot
from v14.recall.neighbours import Neighbours
from v14.recall.plan import TRACED_VOTES, make_plan
from v14.recall.space import Reach, Space
from v14.recall.votes import voter_keys
from v14.recall.weighing import MAX_WEIGHED
from v14.reinstate.layout import Layout, SpannedSequence, new_part, with_spans
from v14.reinstate.rotation import move_keys
from v14.reinstate.span import build_span
from v14.reinstate.transcripts import Placement
from v14.types import Cue, Engram, Event, Plan, Span, Trace, Vote

if TYPE_CHECKING:
    from v14.memory.memory import Memory

CORRECTING_ROLES = frozenset({"user", "text"})
"""Roles whose statements correct what they said before: replies do not."""

ReadKV = Callable[[int, int], tuple[torch.Tensor, torch.Tensor]]
"""Keys and values `[L, T, H, D]` on the CPU of sequence positions [start, end), keys as the engine rotated them."""

ReadEngram = Callable[[int, int], Engram | None]
"""What sequence positions [start, end) did to the recurrent states, at full rank, on the CPU; None if not captured."""


class Session:
    """What a request of one namespace sees of a memory: nothing of any other but the `shared` ones can be reached.

    It reads its own and the shared namespaces, in this order, and writes to its own.
    """

    def __init__(self, memory: "Memory", namespace: str, shared: Sequence[str] = (), request_id: str = "") -> None:
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
            plan = self._chosen(candidates, votes, cue, reach, token_ids, layout, budget)
            while self._drop_expired(plan.events):
                plan = self._chosen(candidates, votes, cue, reach, token_ids, layout, budget)
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
            known = [event_id for event_id in asked if event_id in reach]
            return dict(zip(known, reach.token_weights(cue, known), strict=True)) if known else {}

        self.account.decided(self.namespace, token_ids, layout.new_start, plan, options, weigh)

    def _chosen(
        self,
        candidates: Sequence[Vote],
        votes: Callable[[Collection[str]], Mapping[str, float]],
        cue: Cue,
        reach: Reach,
        token_ids: Sequence[int],
        layout: Layout,
        budget_tokens: int,
    ) -> Plan:
        profile = self.memory.profile
        options, asked = profile.options, token_ids[layout.new_start :]
        return make_plan(
            candidates,
            reach.lookup,
            options,
            token_ids,
            budget_tokens,
            order=reach.order,
            wording=reach.wording(asked),
            votes=votes,
            late=lambda ids: reach.late(cue, ids),
            doubt=profile.doubt,
            asks=self.memory.asks,
            superseded=None if profile.asks_history(asked) else reach.superseded,
            neighbours=Neighbours(before=reach.before, after=reach.after, sentence_ends=profile.sentence_ends),
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
            self.memory.store.link(self.namespace, links)
            space.link(links)
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
