"""Which tokens events share, and how much that says."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from v14.recall.terms import Overlap, Terms

TEMPLATE = (1, 2)


def terms_of(**bodies):
    terms = Terms()
    for event_id, body in bodies.items():
        terms.add(event_id, (*TEMPLATE, *body))
    return terms


def test_what_all_have_weighs_next_to_nothing_and_what_one_has_most():
    overlap = Overlap([terms_of(a=(10,), b=(11,), c=(11,))], ())
    assert overlap.rarity(1) == pytest.approx(math.log(4 / 3) ** 2)
    assert overlap.rarity(10) == overlap.rarity(99) == pytest.approx(math.log(4) ** 2)
    assert overlap.rarity(11) == pytest.approx(math.log(2) ** 2)


def test_statements_about_one_thing_are_the_same_and_about_another_of_its_kind_are_not():
    """10, 11: what is asked of things of this kind; 20, 21: the things; 30 and on: values."""
    others = {f"other{n}": (10, 11, 22 + n, 33 + n) for n in range(4)}
    overlap = Overlap(
        [terms_of(old=(10, 11, 20, 30), new=(50, 10, 11, 20, 31), sibling=(10, 11, 21, 32), **others)], ()
    )
    assert overlap.sameness("old", "new") == 1.0, "nothing was asked: nothing tells them apart"
    asked = Overlap(overlap._terms, (*TEMPLATE, 10, 11, 20))
    assert asked.sameness("old", "new") == 1.0
    assert asked.sameness("old", "sibling") < 0.2


def test_spaces_are_counted_together():
    overlap = Overlap([terms_of(a=(10,)), terms_of(b=(10,), c=(12,))], ())
    assert overlap.rarity(10) == pytest.approx(math.log(4 / 2) ** 2)
    assert overlap.tokens("c") == {1, 2, 12}
    assert overlap.tokens("nobody") == frozenset()


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
    for token in range(10):
        assert set(terms.holders(token)) == set(kept.holders(token))
    with pytest.raises(KeyError):
        terms.remove("nobody")
