"""A sentence that was cut between two events comes back whole; nothing else of its document does."""

import pytest

from v14.config import Options
from v14.events.cut import Cutter
from v14.events.turns import TurnFormat
from v14.recall.neighbours import Neighbours
from v14.recall.plan import make_plan
from v14.types import Vote

STOP, CLOSE = 50, 9
CUTTER = Cutter(
    turns=TurnFormat(openings={"user": (7,), "assistant": (8,)}, closing=(CLOSE,)), sentence_ends={STOP}, event_tokens=4
)
SEQUENCE = (7, 11, 12, STOP, 13, 14, 15, 16, 17, 18, STOP, 19, CLOSE, 8, 20, CLOSE)
EVENTS = [cut.event for cut in CUTTER.cut(SEQUENCE, namespace="n", said_at=0.0)]
BEGUN, LONG, CONTINUED, REPLY = (next(e for e in EVENTS if token in e.token_ids) for token in (11, 13, 17, 20))
OPTIONS = Options(recall_floor=1.0, recall_ratio=0.9, recall_max_linked=0)


def neighbours(*gone):
    here = {event.id: event for event in EVENTS if event not in gone}
    behind = {event.parent: event for event in here.values()}
    return Neighbours(
        before=lambda event: here.get(event.parent), after=lambda event: behind.get(event.id), sentence_ends={STOP}
    )


def plan_of(found, *, budget=100, prompt=(), gone=()):
    known = {event.id: event for event in EVENTS}
    ranked = [Vote(event_id=found.id, value=2.0)]
    order = [event.id for event in EVENTS].index

    def lookup(ids):
        return [known[id] for id in ids]

    return make_plan(ranked, lookup, OPTIONS, prompt, budget, order=order, neighbours=neighbours(*gone))


def test_the_cutter_cut_a_sentence():
    assert LONG.token_ids == (13, 14, 15, 16)
    assert CONTINUED.parent == LONG.id
    assert LONG.parent == BEGUN.id


@pytest.mark.parametrize(
    ("found", "recalled"),
    [(BEGUN, [BEGUN]), (LONG, [LONG, CONTINUED]), (CONTINUED, [LONG, CONTINUED]), (REPLY, [REPLY])],
    ids=["whole", "cut behind", "cut in front", "another turn"],
)
def test_what_stands_beside_it(found, recalled):
    plan = plan_of(found)
    assert list(plan.events) == recalled
    assert sum("one sentence with" in why for why in plan.why) == len(recalled) - 1


def test_budget_prompt_and_what_is_gone():
    assert plan_of(LONG, budget=LONG.num_tokens + 1).events == (LONG,)
    assert plan_of(LONG, prompt=(1, *CONTINUED.body, 2)).events == (LONG,)
    assert plan_of(LONG, gone=(CONTINUED,)).events == (LONG,)
