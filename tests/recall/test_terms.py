"""Which tokens events share, and how much that says."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from v14.recall.terms import Overlap, Terms, pair

TEMPLATE = (1, 2)


def terms_of(**bodies):
    terms = Terms()
    for event_id, body in bodies.items():
        terms.add(event_id, (*TEMPLATE, *body))
    return terms


def test_what_all_have_weighs_nothing_and_what_two_have_is_the_unit():
    overlap = Overlap([terms_of(a=(10,), b=(11,), c=(11,), d=(12,))], ())
    assert overlap.rarity(1) == 0.0
    assert overlap.rarity(11) == pytest.approx(1.0)
    assert overlap.rarity(10) == overlap.rarity(99) == pytest.approx((math.log(4) / math.log(2)) ** 2)


def test_of_two_events_nothing_is_rare():
    overlap = Overlap([terms_of(a=(10,), b=(11,))], (10,))
    assert overlap.rarity(10) == 0.0
    assert overlap.sameness("a", "b") == 0.0
    assert Overlap([terms_of(a=(10,), b=(10, 11))], (*TEMPLATE, 10)).sameness("a", "b") == 1.0
    assert overlap.led_to("a") == {}
    assert Overlap((), ()).asked("nobody") == 0.0


def test_statements_about_one_thing_are_the_same_and_about_another_of_its_kind_are_not():
    """10, 11: what is asked of things of this kind; 20, 21: the things; 30 and on: values."""
    others = {f"other{n}": (10, 11, 22 + n, 33 + n) for n in range(4)}
    terms = terms_of(old=(10, 11, 20, 30), new=(50, 10, 11, 20, 31), sibling=(10, 11, 21, 32), **others)
    assert Overlap([terms], (70,)).sameness("old", "new") == 0.0, "nothing of it was asked"
    asked = Overlap([terms], (*TEMPLATE, 10, 11, 20))
    assert asked.sameness("old", "new") > 0.95
    assert asked.sameness("old", "sibling") < 0.2


def test_an_event_leads_on_by_what_is_rare_and_not_asked_for():
    """The server (20) is called 40; 40 is in rack 30; others are called something, and something is in their racks."""
    others = {f"other{n}": (10, 11, 50 + n) for n in range(8)}
    terms = terms_of(called=(20, 10, 40, 41), rack=(40, 41, 11, 30), server=(20, 12, 60), **others)
    overlap = Overlap([terms], (*TEMPLATE, 20, 11))
    assert overlap.led_to("called") == {"rack": pytest.approx(2.0)}
    assert Overlap([terms], (*TEMPLATE, 11)).led_to("called").keys() == {"rack", "server"}


def test_spaces_are_counted_together():
    overlap = Overlap([terms_of(a=(10,)), terms_of(b=(10,), c=(12,), d=(13,))], ())
    assert overlap.rarity(10) == pytest.approx(1.0)
    assert overlap.led_to("a").keys() == {"b"}
    assert overlap.terms("c") == {1, 2, 12, pair(1, 2), pair(2, 12)}
    assert overlap.terms("nobody") == frozenset()


def test_a_name_of_pieces_is_told_from_names_with_some_of_them():
    """60, 61 and 62 are pieces of names: 60 61, 62 61, 60 62."""
    others = {f"other{n}": (10, 11, 50 + n) for n in range(8)}
    terms = terms_of(right=(10, 60, 61, 30), one=(10, 62, 61, 31), other=(10, 60, 62, 32), **others)
    overlap = Overlap([terms], (*TEMPLATE, 10, 60, 61))
    assert overlap.asked("right") > 2 * max(overlap.asked("one"), overlap.asked("other"))
    assert overlap.named() >= {"right"}
    assert "one" not in overlap.named()
    assert overlap.completed("right", "one") > 0 == overlap.completed("one", "right")


@settings(max_examples=200, deadline=None)
@given(
    bodies=st.dictionaries(st.text(max_size=2), st.lists(st.integers(0, 9), max_size=6), max_size=8),
    gone=st.sets(st.text(max_size=2)),
)
def test_taking_out_leaves_what_was_never_added(bodies, gone):
    terms, kept = Terms(), Terms()
    for event_id, body in bodies.items():
        terms.add(event_id, body)
        if event_id not in gone:
            kept.add(event_id, body)
    for event_id in gone & bodies.keys():
        terms.remove(event_id)
    assert len(terms) == len(kept)
    for term in (*range(10), *(pair(one, two) for one in range(10) for two in range(10))):
        assert set(terms.holders(term)) == set(kept.holders(term))
        assert terms.num_holders(term) == len(kept.holders(term))
    with pytest.raises(KeyError):
        terms.remove("nobody")


def heaviest_run(overlap, tokens, shared):
    """Token after token, as `led_to` defines it."""
    best = weight = 0.0
    for place, token in enumerate(tokens):
        if place and pair(tokens[place - 1], token) in shared:
            weight += overlap.rarity(pair(tokens[place - 1], token))
        else:
            weight = overlap.rarity(token) if token in shared else 0.0
        best = max(best, weight)
    return best


@settings(max_examples=100, deadline=None)
@given(
    bodies=st.lists(st.lists(st.integers(10, 16), min_size=1, max_size=12), min_size=3, max_size=8),
    asked=st.lists(st.integers(10, 16), max_size=4),
)
def test_the_heaviest_run_is_that_of_all_neighbours(bodies, asked):
    terms = Terms()
    for number, body in enumerate(bodies):
        terms.add(str(number), body)
    overlap = Overlap([terms], asked)
    beyond = overlap.terms("0") - Overlap([terms], asked)._asked
    for other, weight in overlap.led_to("0").items():
        assert weight == pytest.approx(heaviest_run(overlap, bodies[0], beyond & overlap.terms(other)))
