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
    overlap = Overlap([terms_of(a=(10,), b=(11,), c=(11,), d=(12,))])
    assert overlap.rarity(1) == 0.0
    assert overlap.rarity(11) == pytest.approx(1.0)
    assert overlap.rarity(10) == overlap.rarity(99) == pytest.approx((math.log(4) / math.log(2)) ** 2)


def test_spaces_are_counted_together():
    overlap = Overlap([terms_of(a=(10,)), terms_of(b=(10,), c=(12,), d=(13,))])
    assert overlap.rarity(10) == pytest.approx(1.0)
    assert overlap.terms("c") == {1, 2, 12, pair(1, 2), pair(2, 12)}
    assert overlap.terms("nobody") == frozenset()


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
