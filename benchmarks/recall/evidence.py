"""What each system finds for a question: its best events, and what the memory would put in front of the prompt."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

from benchmarks.recall.baselines import Ranker
from benchmarks.recall.chats import Case
from benchmarks.recall.reading import Reader
from benchmarks.recall.table import Row
from benchmarks.recall.told import Told
from v14.memory import Session
from v14.recall.ballot import Ballot
from v14.recall.plan import COMPLETED, make_plan
from v14.recall.space import Space
from v14.recall.weighing import MAX_WEIGHED
from v14.reinstate.layout import Layout
from v14.types import Cue

TOP = 5
"""Evidence counts when it is among so many best events, and text RAG shows as many."""

VOTERS, MEMORY = "voters", "memory"
"""The votes alone, cut to a plan by the options; and what a session plans, with everything that it does beside."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """For one case: the best events by system, events of the plans by system, and the prompt's token ids with the
    memory's plan in place, `alone` with that of the votes alone."""

    case: Case
    ranked: Mapping[str, Sequence[str]]
    plans: Mapping[str, Sequence[str]]
    prompt: Sequence[int]
    alone: Sequence[int]
    needed: Sequence[set[str]]

    def holds(self, events: Sequence[str]) -> bool:
        """Whether the events hold every statement that the answer takes."""
        return all(any(event_id in one for event_id in events) for one in self.needed)


def look(
    reader: Reader, told: Told, rankers: Mapping[str, Ranker], cases: Sequence[Case], num: int = TOP
) -> list[Found]:
    """Ask every system about every case, for its `num` best events."""
    return [_look(reader, told, rankers, case, num) for case in cases]


def _look(reader: Reader, told: Told, rankers: Mapping[str, Ranker], case: Case, num: int) -> Found:
    session, options = told.session, reader.profile.options
    ids = reader.ids((("user", case.question),), generate=True)
    layout = session.layout(ids)
    cue = reader.cue(ids, layout.new_start)
    space = reader.memory.space(session.namespace)
    ballot = space.votes(cue)
    best = ballot.best(MAX_WEIGHED)
    alone = make_plan(
        best, space.lookup, options, ids, options.recall_budget_tokens, order=space.index.order, votes=ballot.of
    )
    with _voted(space, cue, ballot):
        plan = session.plan(cue, ids, layout)
        five = _ranked(session, cue, ids, layout)
    order = list(told.texts)
    ranked = {VOTERS: [vote.event_id for vote in best[:num]], MEMORY: five}
    ranked |= {name: [order[place] for place in ranker.rank(case.question, num)] for name, ranker in rankers.items()}
    return Found(
        case=case,
        ranked=ranked,
        plans={VOTERS: [event.id for event in alone.events], MEMORY: [event.id for event in plan.events]},
        prompt=session.sequence(ids, session.placed(layout, plan)).token_ids,
        alone=session.sequence(ids, session.placed(layout, alone)).token_ids,
        needed=told.needed(case),
    )


def _ranked(session: Session, cue: Cue, ids: Sequence[int], layout: Layout) -> list[str]:
    """The best events of a memory that is sure of every question and has room: what it finds, and what that leads to,
    `TOP` together; without what only completes a sentence."""
    memory = session.memory
    num_linked = memory.profile.options.recall_max_linked
    sure = {"recall_sure": -1e9, "recall_ratio": 0.0, "recall_linked": 0.0, "recall_max_events": TOP - num_linked}
    options = memory.profile.options.model_copy(update=sure | {"recall_budget_tokens": 1 << 20})
    with patch.object(memory, "profile", replace(memory.profile, options=options)):
        plan = session.plan(cue, ids, layout)
    found = zip(plan.events, plan.why, strict=True)
    return [event.id for event, why in found if not why.startswith(COMPLETED)][::-1]


@contextmanager
def _voted(space: Space, cue: Cue, votes: Ballot) -> Iterator[None]:
    """Votes for this cue are known inside: among ten thousand events they take longer than anything else."""
    vote = space.votes
    with patch.object(space, "votes", lambda asked: votes if asked is cue else vote(asked)):
        yield


def rows(model: str, found: Sequence[Found]) -> list[Row]:
    """The table's rows about evidence and plans."""
    table: list[Row] = []
    for row in dict.fromkeys(each.case.row for each in found):
        own = [each for each in found if each.case.row == row]
        if not own[0].needed:
            for system in own[0].plans:
                value = sum(bool(each.plans[system]) for each in own) / len(own)
                table.append(Row(model=model, row=f"recalls anything: {row}", system=system, value=value, of=len(own)))
            continue
        for system in own[0].ranked:
            value = sum(each.holds(each.ranked[system]) for each in own) / len(own)
            table.append(
                Row(model=model, row=f"evidence in the top {TOP}: {row}", system=system, value=value, of=len(own))
            )
        for system in own[0].plans:
            value = sum(each.holds(each.plans[system]) for each in own) / len(own)
            table.append(Row(model=model, row=f"evidence in the plan: {row}", system=system, value=value, of=len(own)))
    return table
