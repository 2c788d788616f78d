"""What the store does in the background with what it holds: budgets, idle traces, sealing, small segments."""

import struct

import pytest

from tests.store.checker import leftovers
from tests.store.conftest import Opener
from tests.store.making import WEIGHTS, bits, same_trace
from tests.store.numbers import event, told, trace
from tests.store.segment_files import flip_last
from v14.codecs.form import Form
from v14.errors import StoreError
from v14.store.audit import namespace_digest
from v14.store.keeping import Keeping
from v14.store.layout import Layout
from v14.store.master import parse_key
from v14.store.policies import Policy
from v14.store.tending import EVICT_TO, FEW_SMALL, row_bytes

DAY_S = 86_400.0
IDLE = Keeping(idle=Form(codec="int4", fine=(1,)), idle_s=7 * DAY_S)
KEY = parse_key("a1" * 32, "the test")


def put(store, *numbers: int, namespace: str = "home") -> None:
    """One commit, and so one segment, each."""
    for number in numbers:
        store.put(told(number, namespace=namespace))
        assert store.flush(10)


def segments(store) -> list[str]:
    return sorted(path.name for path in Layout(root=store.path).segments.iterdir())


def tend(store, method: str):
    """A part of tending, on the thread that does it."""
    return store._writer.run(getattr(store._tender, method))


def codecs(store) -> list[str]:
    return [row.codec for row in store._catalog.rows("home")]


def test_idle_events_are_rewritten_smaller(opened: Opener) -> None:
    now = [8 * DAY_S]
    store = opened(keeping=IDLE, clock=lambda: now[0])
    put(store, 0, 1)
    store.touch("home", [event(1).id], 5 * DAY_S)
    assert store.flush(10)
    before = store.stats().num_bytes
    assert tend(store, "rewrite_one")
    assert not tend(store, "rewrite_one")
    assert codecs(store) == ["int4;fine=1", ""]
    assert store.stats().num_bytes < 0.75 * before
    assert same_trace(store.trace("home", event(1).id), trace(1))
    smaller = store.trace("home", event(0).id)
    assert 0 < (smaller.values.float() - trace(0).values.float()).abs().max() < 0.4
    now[0] = 13 * DAY_S
    assert tend(store, "rewrite_one")
    assert codecs(store) == ["int4;fine=1", "int4;fine=1"]
    assert same_trace(store.trace("home", event(0).id), smaller)
    assert store.verify() == []
    assert leftovers(store.path.parent) == []
    assert [known.said_at for known in store.events("home")] == [0.0, 1.0]


def test_what_gains_nothing_is_looked_at_once(opened: Opener, monkeypatch) -> None:
    store = opened(keeping=IDLE, clock=lambda: 30 * DAY_S)
    short = event(0, num_tokens=1)
    store.put([(short, trace(0, num_tokens=1))])
    assert store.flush(10)
    assert not tend(store, "rewrite_one")
    monkeypatch.setattr(type(store._tender), "_rewrite", pytest.fail)
    assert not tend(store, "rewrite_one")
    assert same_trace(store.trace("home", short.id), trace(0, num_tokens=1))


def test_a_segment_that_cannot_be_read_stays(opened: Opener) -> None:
    """Its file may be put back from a copy: rewriting would make the loss final."""
    store = opened(keeping=IDLE, clock=lambda: 30 * DAY_S)
    put(store, 0)
    (segment,) = segments(store)
    flip_last(Layout(root=store.path).segment(segment))
    assert not tend(store, "rewrite_one")
    assert segments(store) == [segment]


def test_small_segments_become_one(opened: Opener) -> None:
    store = opened()
    numbers = range(FEW_SMALL - 1)
    put(store, *numbers)
    assert not tend(store, "merge")
    put(store, FEW_SMALL)
    assert len(segments(store)) == FEW_SMALL
    assert tend(store, "merge")
    assert len(segments(store)) == 1
    assert all(same_trace(store.trace("home", event(number).id), trace(number)) for number in numbers)
    put(store, 99)
    store.close()
    again = opened()
    assert again.verify() == []
    assert again.stats().num_events == FEW_SMALL + 1


@pytest.mark.parametrize("step", ["written", "committed"])
def test_a_rewriting_that_is_cut_off_loses_nothing(opened: Opener, monkeypatch, step: str) -> None:
    """As after a crash: the store is opened anew with whatever files there are."""
    store = opened()
    put(store, *range(FEW_SMALL))
    if step == "written":
        monkeypatch.setattr(store._catalog, "move", _fail)
    monkeypatch.setattr(store._segments.blobs, "remove", _fail)
    with pytest.raises(StoreError, match="cut off"):
        tend(store, "merge")
    monkeypatch.undo()
    store.close()
    again = opened()
    assert again.verify() == []
    assert again.stats().num_events == FEW_SMALL
    again._writer.run(lambda: None)  # behind what opening leaves to the background
    assert len(segments(again)) == (FEW_SMALL if step == "written" else 1)
    assert leftovers(again.path.parent) == []


def _fail(*args, **kwargs):
    raise StoreError("cut off")


def test_a_key_seals_what_was_readable(opened: Opener, tmp_path) -> None:
    store = opened()
    put(store, 0, 1)
    store.close()
    store = opened(master=KEY)
    assert tend(store, "rewrite_one")
    assert tend(store, "rewrite_one")
    assert not tend(store, "rewrite_one")
    assert set(codecs(store)) == {"+aesgcm"}
    assert all(same_trace(store.trace("home", event(number).id), trace(number)) for number in (0, 1))
    found = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert struct.pack("<4q", *event(0).token_ids[:4]) not in found
    assert b"chat-of-0" not in found
    assert bits(trace(0).keys[0])[:32] not in found


def test_a_budget_forgets_what_was_not_asked_for_the_longest(opened: Opener) -> None:
    store = opened()
    put(store, *range(10))
    store.touch("home", [event(0).id], 1000.0)
    assert store.flush(10)
    each = row_bytes(store._catalog.rows("home")[0])
    size = store.stats().num_bytes
    store.close()
    budget = size - 3 * each
    store = opened(keeping=Keeping(max_bytes=budget))
    num_evicted = tend(store, "keep_budgets")
    # Not event 0, which was recalled; 1 is the oldest of the others.
    left = [known.said_at for known in store.events("home")]
    assert left == [0.0, *map(float, range(num_evicted + 1, 10))]
    assert store.stats().num_bytes <= budget
    assert store.stats().num_bytes > (EVICT_TO * budget) - 2 * each
    (record,) = store.audit()
    assert (record.action, record.selection, record.num_events) == ("evict", "budget", num_evicted)
    assert record.num_tokens == 24 * num_evicted
    assert tend(store, "keep_budgets") == 0


def test_a_namespace_has_a_budget_of_its_own(opened: Opener) -> None:
    store = opened()
    for namespace in ("home", "work"):
        put(store, *range(6), namespace=namespace)
    each = row_bytes(store._catalog.rows("home")[0])
    store.set_policy("work", Policy(max_bytes=3 * each))
    assert tend(store, "keep_budgets") == 4
    assert len(store.events("home")) == 6
    assert [known.said_at for known in store.events("work")] == [4.0, 5.0]
    assert {record.namespace_digest for record in store.audit()} == {namespace_digest("work")}


def test_tending_goes_on_by_itself(opened: Opener) -> None:
    import time

    store = opened(keeping=Keeping(max_bytes=1), tend_s=0.02)
    put(store, 0)
    until = time.monotonic() + 20
    while store.stats().num_events and time.monotonic() < until:
        time.sleep(0.02)
    assert store.stats().num_events == 0
    assert store.has("home", [event(0).id]) == set()
    assert WEIGHTS in str(store.path).replace("-", ":")
