"""The order of a span: the strongest last, and what tells of the same in the order in which it was said."""

from hypothesis import given, settings
from hypothesis import strategies as st

from v14.recall.order import SAME, span_order
from v14.types import Event


def event(token, said_at=0.0, chat_id=None):
    return Event(namespace="n", chat_id=chat_id or str(token), role="user", said_at=said_at, token_ids=(token,))


def order_of(events, same=()):
    """`same` are pairs of tokens whose events tell of the same."""

    def sameness(one, other):
        pair = {e.token_ids[0] for e in events if e.id in (one, other)}
        return SAME if pair in [set(p) for p in same] else 0.0

    return [e.token_ids[0] for e in span_order(events, [e.id for e in events].index, sameness)]


def test_the_strongest_stands_last_whenever_it_was_said():
    assert order_of([event(1, 9.0), event(2, 1.0), event(3, 5.0)]) == [3, 2, 1]


def test_a_correction_stands_behind_what_it_corrects_whichever_is_stronger():
    old, new, other = event(1, 1.0), event(2, 2.0), event(3, 3.0)
    assert order_of([old, new, other], same=[(1, 2)]) == [3, 1, 2]
    assert order_of([new, other, old], same=[(1, 2)]) == [3, 1, 2]
    assert order_of([other, old, new], same=[(1, 2)]) == [1, 2, 3]


def test_a_chat_stands_together_in_its_order():
    first, second = event(1, 1.0, "chat"), event(2, 1.0, "chat")
    assert order_of([first, event(3, 0.5), second]) == [3, 1, 2]


@settings(max_examples=200, deadline=None)
@given(
    said_at=st.lists(st.integers(0, 3), min_size=1, max_size=7),
    same=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6))),
)
def test_laws(said_at, same):
    """Everything once; the strongest's group last; all the same or nothing the same is time order or votes' order."""
    events = [event(n, float(at)) for n, at in enumerate(said_at)]
    found = order_of(events, same=same)
    assert sorted(found) == list(range(len(events)))
    assert order_of(events) == list(reversed(range(len(events))))
    everything = [(a, b) for a in range(7) for b in range(7)]
    times = [said_at[n] for n in order_of(events, same=everything)]
    assert times == sorted(times)
