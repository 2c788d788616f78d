"""Ballots: the best of one or several spaces, the votes of some events, and plans that need no more than these."""

from contextlib import nullcontext

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from v14.config import Options
from v14.recall.ballot import Joint, Votes
from v14.recall.doubt import Doubt
from v14.recall.graphs import Cast
from v14.recall.lexicon import Lexicon
from v14.recall.plan import make_plan
from v14.recall.weighing import MAX_WEIGHED
from v14.recall.wording import Wording
from v14.types import Event, Vote

VALUES = st.floats(-1, 5, width=32)


class Keys:
    """An index of two pages; the votes of single events are those of `exact`."""

    def __init__(self, ids, exact=None):
        self.pages = [list(ids[: len(ids) // 3]), list(ids[len(ids) // 3 :])]
        self.exact = exact

    def reading(self):
        return nullcontext()

    def place(self, event_id):
        return next(((n, page.index(event_id)) for n, page in enumerate(self.pages) if event_id in page), None)

    def looked_up(self, asked, places):
        return torch.tensor([self.exact[self.pages[page][slot]] for page, slot in places])


def ballot(votes):
    """`votes` by id, in their order."""
    keys = Keys(list(votes))
    return Votes(
        keys, keys.pages, [len(page) for page in keys.pages], Cast(torch.tensor([*votes.values()]), None), None
    )


def ranked(votes):
    """All votes, strongest first, as a list; of equal ones the first is first."""
    return sorted((Vote(event_id=id, value=value) for id, value in votes.items()), key=lambda vote: -vote.value)


@settings(max_examples=100, deadline=None)
@given(values=st.lists(VALUES, unique=True, max_size=9), num=st.integers(1, 12), without=st.sets(st.integers(0, 9)))
def test_the_best_are_those_of_a_full_sort(values, num, without):
    votes = {str(number): value for number, value in enumerate(values)}
    passed = {str(number) for number in without}
    found = ballot(votes).best(num, passed)
    assert found == [vote for vote in ranked(votes) if vote.event_id not in passed][:num]
    asked = {"0", "3", "none"}
    assert ballot(votes).of(asked) == {event_id: votes[event_id] for event_id in asked & votes.keys()}


def test_of_equal_votes_the_first_is_first():
    votes = ballot({"b": 1.0, "a": 1.0, "c": 2.0})
    assert [vote.event_id for vote in votes.best(3)] == ["c", "b", "a"]


def test_what_was_removed_or_added_since_has_no_vote():
    keys = Keys(["a", "b", "c", "d", "e", "f"])
    # The first page has a place more than events, the second two.
    values = [1.0, 6.0, -torch.inf, 2.0, -torch.inf, 4.0, 3.0, -torch.inf, -torch.inf]
    votes = Votes(keys, keys.pages, [3, 6], Cast(torch.tensor(values), None), None)
    keys.pages[0][1] = None
    keys.pages[1].append("g")
    assert [vote.event_id for vote in votes.best(9)] == ["e", "f", "c", "a"]
    assert votes.of("abcdefg") == {"a": 1.0, "c": 2.0, "d": -torch.inf, "e": 4.0, "f": 3.0}


def test_of_chosen_events_the_best_are_given_and_any_is_looked_up():
    keys = Keys(["a", "b", "c", "d", "e", "f"], {"a": 0.5, "c": 0.25})
    cast = Cast(torch.tensor([3.0, 5.0, 4.0]), torch.tensor([7, 1, 4]))
    votes = Votes(keys, keys.pages, [4, 5], cast, None)
    assert [vote.event_id for vote in votes.best(2)] == ["b", "c"]
    assert [vote.event_id for vote in votes.best(9, {"b"})] == ["c", "f"]
    assert votes.of(["a", "c", "z"]) == {"a": 0.5, "c": 0.25}


@settings(max_examples=100, deadline=None)
@given(
    spaces=st.lists(st.dictionaries(st.sampled_from("abcdefgh"), VALUES, max_size=6), max_size=3),
    num=st.integers(1, 9),
    without=st.sets(st.sampled_from("abcdefgh"), max_size=3),
)
def test_what_several_spaces_hold_counts_as_in_the_first(spaces, num, without):
    merged = {}
    for votes in spaces:
        for event_id, value in votes.items():
            merged.setdefault(event_id, value)
    joint = Joint([ballot(votes) for votes in spaces])
    expected = [vote for vote in ranked(merged) if vote.event_id not in without][:num]
    assert [vote.value for vote in joint.best(num, without)] == [vote.value for vote in expected]
    assert {v.event_id: v.value for v in joint.best(9, without)}.items() <= merged.items()
    assert joint.of("abcdefgh") == merged


@settings(max_examples=60, deadline=None)
@given(draw=st.randoms(use_true_random=False), num_events=st.integers(0, 3 * MAX_WEIGHED), floor=st.floats(0.5, 3))
def test_a_plan_is_that_of_all_votes_in_a_list(draw, num_events, floor):
    """Associations included, which may lead to an event with any vote."""
    events, lexicon = [], Lexicon()
    for at in range(num_events):
        body = (1, 2, *(draw.randrange(3, 3 + num_events) for _ in range(draw.randrange(1, 6))), 10_000 + at)
        events.append(Event(namespace="n", chat_id=str(at), role="user", said_at=float(at), token_ids=body))
        lexicon.add(events[-1].id, body)
    # Which of two equal votes is among the best is not said.
    votes = {event.id: draw.uniform(-1, 4) + number / 1024 for number, event in enumerate(events)}
    known = {event.id: event for event in events}
    prompt = (1, 2, *draw.sample(range(3, 3 + num_events), min(4, num_events)))
    options = Options(recall_floor=floor, recall_max_linked=3)

    doubt = draw.choice([None, Doubt(vote=1.0, names=1.0, words=0.5, missing=-0.5, phrase=1.0, bar=2.0)])

    def lookup(ids):
        return [known[event_id] for event_id in ids]

    def plan(best, **given):
        given |= {"order": list(known).index, "doubt": doubt, "wording": Wording([lexicon], prompt)}
        return make_plan(best, lookup, options, prompt, 100, **given)

    held = ballot(votes)
    everything = held.of(votes)
    assert plan(held.best(MAX_WEIGHED), votes=held.of) == plan(ranked(everything))
