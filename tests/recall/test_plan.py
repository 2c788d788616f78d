"""Plans: floor, ratio, limits, what is there already, what says the same, order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from v14.config import Options
from v14.recall.plan import TRACED_VOTES, make_plan
from v14.types import Event, Vote

OPTIONS = Options(recall_floor=1.0, recall_ratio=0.5, recall_max_events=3, recall_budget_tokens=100)


def event(*token_ids, said_at=0.0, closing_len=0, parent=None, chat_id="c"):
    parents = {} if parent is None else {"parent": parent}
    given = {"said_at": said_at, "token_ids": token_ids, "closing_len": closing_len, **parents}
    return Event(namespace="n", chat_id=chat_id, role="user", **given)


def finder(*events):
    known = {e.id: e for e in events}
    return lambda ids: [known[id] for id in ids]


def plan_of(votes, *, prompt=(), budget=100, options=OPTIONS):
    """`votes` are (event, value) in order of insertion."""
    ranked = sorted((Vote(event_id=e.id, value=v) for e, v in votes), key=lambda vote: -vote.value)
    events = [e for e, _ in votes]
    return make_plan(ranked, finder(*events), options, prompt, budget, order=[e.id for e in events].index)


def test_floor_and_ratio():
    a, b, c, d = event(1), event(2), event(3), event(4)
    plan = plan_of([(a, 4.0), (b, 2.0), (c, 1.9), (d, 0.5)])
    assert set(plan.events) == {a, b}
    assert plan_of([(a, 1.5), (b, 1.0), (c, 0.9)]).events == (a, b)


def test_without_a_ratio_only_the_floor_counts():
    options = OPTIONS.model_copy(update={"recall_floor": -9.0, "recall_ratio": 0.0})
    a, b = event(1), event(2)
    assert plan_of([(a, 3.0), (b, -2.0)], options=options).events == (a, b)
    assert plan_of([(a, -1.0), (b, -2.0)], options=options).events == (a, b)


def test_nothing_says_why():
    assert plan_of([]).reason == "nothing is stored"
    plan = plan_of([(event(1), 0.4)])
    assert plan.events == ()
    assert "0.400" in plan.reason
    assert "1.000" in plan.reason


def test_what_stands_in_the_prompt_is_not_recalled():
    """And it does not set the bar for the ratio: the strongest that can be recalled does."""
    asked, fact = event(7, 8, 9, 2, closing_len=1), event(1, 2, 3)
    plan = plan_of([(asked, 9.0), (fact, 1.2)], prompt=(5, 7, 8, 9, 6))
    assert plan.events == (fact,)
    assert "in the prompt" in plan.reason
    assert plan_of([(asked, 9.0)], prompt=(7, 8, 0, 9)).events == (asked,)
    # A match of bytes that is no match of ids: 256 is a shifted 1.
    assert plan_of([(event(1), 9.0)], prompt=(256,)).events == (event(1),)


def test_the_same_said_twice_keeps_the_newest_and_longest():
    old, new = event(1, 2, said_at=1.0), event(1, 2, said_at=2.0, parent="sha256:other")
    assert plan_of([(old, 3.0), (new, 2.9)]).events == (new,)
    assert plan_of([(new, 3.0), (old, 2.9)]).events == (new,)
    longer = event(1, 2, 3, 0, closing_len=1)
    assert plan_of([(old, 3.0), (longer, 2.0)]).events == (longer,)
    assert plan_of([(longer, 3.0), (new, 2.0)]).events == (longer,)


def test_limits_go_by_votes_and_the_order_by_time():
    late, middle, early, weak = (event(n, 50, said_at=t) for n, t in ((1, 9.0), (2, 5.0), (3, 1.0), (4, 0.0)))
    votes = [(weak, 3.0), (late, 5.0), (middle, 4.0), (early, 3.5)]
    assert plan_of(votes).events == (early, middle, late)
    assert plan_of(votes, budget=4).events == (middle, late)
    assert plan_of(votes, budget=0).events == ()
    tie = [(event(2, said_at=1.0), 2.0), (event(1, said_at=1.0), 3.0)]
    assert plan_of(tie).events == (tie[0][0], tie[1][0])
    long = event(*range(100, 160), said_at=3.0)
    assert plan_of([(long, 5.0), (weak, 4.0)], budget=30).events == (weak,)


def test_the_strongest_chat_stands_last_and_a_chat_in_the_order_it_was_said():
    a1, a2 = event(1, said_at=1.0, chat_id="a"), event(2, said_at=2.0, chat_id="a")
    b = event(3, said_at=9.0, chat_id="b")
    assert plan_of([(a1, 3.0), (b, 2.5), (a2, 2.0)]).events == (b, a1, a2)
    assert plan_of([(a1, 2.0), (b, 3.5), (a2, 2.2)]).events == (a1, a2, b)


def test_a_forgotten_event_is_passed_over():
    gone, here = event(1), event(2)
    ranked = [Vote(event_id=gone.id, value=9.0), Vote(event_id=here.id, value=2.0)]
    plan = make_plan(ranked, finder(here), OPTIONS, (), 9)
    assert plan.events == (here,)
    assert plan.votes == tuple(ranked)


@settings(max_examples=200, deadline=None)
@given(
    bodies=st.lists(
        st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.floats(-1, 5), st.integers(0, 3)), max_size=12
    ),
    prompt=st.lists(st.integers(0, 3), max_size=6),
    budget=st.integers(0, 12),
)
def test_laws(bodies, prompt, budget):
    votes = {(e := event(*body, said_at=float(at))).id: (e, value) for body, value, at in bodies}
    plan = plan_of(list(votes.values()), prompt=prompt, budget=budget)
    assert len(plan.events) <= OPTIONS.recall_max_events
    assert sum(e.num_tokens for e in plan.events) <= budget
    assert [e.said_at for e in plan.events] == sorted(e.said_at for e in plan.events)
    assert len(plan.votes) == min(TRACED_VOTES, len(votes))
    assert plan.reason
    text = ",".join(map(str, prompt))
    for e in plan.events:
        assert f",{','.join(map(str, e.token_ids))}," not in f",{text},"
        for other in plan.events:
            assert e is other or e.token_ids != other.token_ids[: e.num_tokens]
