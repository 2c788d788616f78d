"""What every store promises (`v14.store.contract`, docs/store.md): one suite, run on each kind of store."""

import json
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.store.contract.conftest import Opener
from tests.store.contract.places import Place
from tests.store.making import made, same_bits, same_trace
from v14.codecs.form import Form
from v14.errors import StoreError, TraceCorruptError
from v14.store import looking
from v14.store.core import CoreStore
from v14.store.keeping import Keeping
from v14.store.policies import Policy
from v14.store.tending import FEW_SMALL, row_bytes
from v14.types import Event, Link, Trace


def wait_until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.005)


def readable(store: CoreStore, numbers: range) -> bool:
    events = [made(number) for number in numbers]
    return store.events("home") == [event for event, _ in events] and all(
        same_trace(store.trace("home", event.id), trace) for event, trace in events
    )


def end_of_values(segment: bytes) -> int:
    """Where the values of the one event of a segment end."""
    data_start = 8 + int.from_bytes(segment[:8], "little")
    [values] = [entry for name, entry in json.loads(segment[8:data_start]).items() if name.endswith(".v")]
    return data_start + int(values["data_offsets"][1])


def test_restart_gives_the_same_bytes(opened: Opener, place: Place) -> None:
    first = opened(clock=lambda: 99.0)
    first.put([made(number) for number in range(20)])
    first.close()
    segments = place.segments()
    second = opened()
    assert second.events("home") == [made(number)[0] for number in range(20)]
    for number in range(20):
        event, trace = made(number)
        assert same_trace(second.trace("home", event.id), trace)
        assert same_bits(second.keys_of_layers("home", event.id, [3, 1]), trace.keys[[3, 1]])
    assert second.stats().num_bytes == sum(map(len, segments.values()))
    second.put([made(20)])
    second.close()
    assert place.segments().items() >= segments.items(), "a segment that was written is never changed"


def test_visible_at_once(opened: Opener) -> None:
    store = opened(retry_s=60)
    event, trace = made(1)
    for _ in range(2):  # before and after the commit
        store.put([(event, trace)])
        assert store.events("home") == store.get("home", [event.id]) == [event]
        assert store.has("home", [event.id, made(2)[0].id]) == {event.id}
        assert store.has("work", [event.id]) == set()
        assert store.namespaces() == {"home": 1}
        assert same_trace(store.trace("home", event.id), trace)
        for call in (store.trace, store.get, lambda *args: store.keys_of_layers(*args, [0])):
            with pytest.raises(KeyError):
                call("work", event.id if call != store.get else [event.id])
        assert store.flush(30)


def test_a_glance_says_what_the_trace_would(opened: Opener) -> None:
    """Before and after the commit, in each form; bytes after it are those on disk."""
    form = Form(codec="int8")
    store = opened(retry_s=60, keeping=Keeping(form=form))
    store.put([made(number) for number in (2, 1)])
    store.touch("home", [made(2)[0].id], 77.0)
    for committed in (False, True):
        glances, events = store.glances("home"), store.events("home")
        assert [glance.id for glance in glances] == [event.id for event in events]
        for glance, event in zip(glances, events, strict=True):
            for name in ("chat_id", "role", "said_at", "num_tokens"):
                assert getattr(glance, name) == getattr(event, name)
            assert glance.recalled_at == (77.0 if event.id == made(2)[0].id else 0.0)
            if not committed:
                assert glance.num_bytes == store.trace("home", event.id).num_bytes
        assert store.flush(30)
    assert {glance.form for glance in glances} <= {form.text, ""}
    assert 0 < sum(glance.num_bytes for glance in glances) < store.stats().num_bytes
    assert store.glances("work") == []
    store.touch("home", [glances[0].id], 88.0)  # a renewal that awaits its commit
    assert store.glances("home")[0].recalled_at == 88.0
    store.set_policy("home", Policy(ttl_s=1e-6))
    assert store.glances("home") == []


def test_events_of_one_moment_keep_their_order(opened: Opener) -> None:
    store = opened()
    events = [(replace(event, said_at=5.0), trace) for event, trace in map(made, (3, 1, 2, 0))]
    store.put(events[:2])
    assert store.flush(30)
    store.put(events[2:])
    assert store.events("home") == [event for event, _ in events]


def test_times_only_move_forward(opened: Opener, place: Place) -> None:
    store = opened()
    (one, trace), two, three = made(1), made(2), made(3)
    store.put([(one, trace), two])
    assert store.flush(30)
    store.touch("home", [one.id, "sha256:unknown"], 50.0)
    store.touch("home", [one.id], 40.0)
    store.put([three, (replace(one, said_at=1.5), trace), (replace(two[0], said_at=1.0), two[1])])
    store.touch("home", [three[0].id], 60.0)
    store.close()
    seen = [event for event in looking.events(place.home) if event.weights_id == place.weights_id]
    assert [(event.said_at, event.recalled_at) for event in seen] == [(1.5, 50.0), (2.0, 0.0), (3.0, 60.0)]


def test_committed_traces_leave_memory(opened: Opener) -> None:
    store = opened()
    event, trace = made(1)
    store.put([(event, trace)])
    alive = weakref.ref(trace)
    del trace
    assert store.flush(30)
    wait_until(lambda: alive() is None)
    assert same_trace(store.trace("home", event.id), made(1)[1])


def test_damage_is_set_aside_and_the_rest_serves(
    opened: Opener, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened()
    names: list[str] = []
    for number in range(3):
        store.put([made(number)])
        assert store.flush(30)
        names += [name for name in place.segments() if name not in names]
    whole = place.segments()[names[0]]
    last = end_of_values(whole) - 1
    place.replace(names[0], whole[:last] + bytes([whole[last] ^ 1]) + whole[last + 1 :])
    place.replace(names[1], None)
    ids = [made(number)[0].id for number in range(3)]
    with pytest.raises(TraceCorruptError, match=names[0]):
        store.trace("home", ids[0])
    with pytest.raises(TraceCorruptError, match=names[1]):
        store.keys_of_layers("home", ids[1], [0])
    for _ in range(2):
        assert [event.id for event in store.events("home")] == ids[2:]
        assert store.has("home", ids) == {ids[2]}
        assert store.stats().num_corrupt == 2
        assert store.stats().num_events == 1
        with pytest.raises(KeyError):
            store.trace("home", ids[0])
        assert same_trace(store.trace("home", ids[2]), made(2)[1])
        store.close()
        store = opened()
    assert caplog.text.count("is set aside") == 2
    place.replace(names[0], whole)
    assert store.verify() == [("home", ids[1])], "a segment put back is taken back"
    store.put([made(1)])
    assert store.flush(30)
    assert same_trace(store.trace("home", ids[1]), made(1)[1]), "what is read again is stored again"
    assert store.stats().num_corrupt == 0
    assert store.verify() == []


@pytest.mark.parametrize("kept_bytes", [0, 5, 200, None])
def test_a_segment_cut_short_is_damage(opened: Opener, place: Place, kept_bytes: int | None) -> None:
    store = opened()
    store.put([made(3)])
    assert store.flush(30)
    [(name, whole)] = place.segments().items()
    place.replace(name, whole[: end_of_values(whole) - 1 if kept_bytes is None else kept_bytes])
    with pytest.raises(TraceCorruptError, match=f"{name}.*damaged"):
        store.trace("home", made(3)[0].id)


def test_a_row_that_is_not_its_id_is_set_aside(opened: Opener, place: Place) -> None:
    store = opened()
    store.put([made(1), made(2)])
    assert store.flush(30)
    token_ids = made(1)[0].token_ids
    place.alter(b"".join(token.to_bytes(8, "little") for token in (token_ids[0] + 1, *token_ids[1:])), 1.0)
    assert store.verify() == [("home", made(1)[0].id)]
    assert store.events("home") == [made(2)[0]]
    place.alter(b"\0", 2.0)
    with pytest.raises(KeyError):
        store.get("home", [made(2)[0].id])
    assert store.events("home") == []
    assert store.stats().num_corrupt == 2


def test_what_can_never_be_stored_is_refused_at_once(opened: Opener) -> None:
    store = opened()
    event, trace = made(1)
    longer = Trace(keys=torch.zeros(1, 9, 1, 1), values=torch.zeros(1, 9, 1, 1))
    double = Trace(keys=trace.keys.double(), values=trace.values.double())
    bad: list[tuple[Event, Trace]] = [
        (event, longer),
        (event, double),
        (replace(event, said_at=float("nan")), trace),
        (replace(event, namespace="\ud800"), trace),
    ]
    for pair in bad:
        with pytest.raises(ValueError, match=r"event|dtype|encode"):
            store.put([made(2), pair])
    assert store.stats().num_events == 0


def test_slots_out_of_range(opened: Opener) -> None:
    store = opened()
    event, trace = made(1)
    store.put([(event, trace)])
    for _ in range(2):
        assert store.keys_of_layers("home", event.id, []).shape == (0, *trace.keys.shape[1:])
        for slot in (-1, 4):
            with pytest.raises(IndexError):
                store.keys_of_layers("home", event.id, [slot])
        assert store.flush(30)


def test_closed_store_says_so(opened: Opener) -> None:
    store = opened()
    store.close()
    store.close()
    assert store.flush(0)
    for call in (lambda: store.put([made(1)]), lambda: store.events("home"), store.stats):
        with pytest.raises(StoreError, match="closed"):
            call()


def test_threads(opened: Opener) -> None:
    """Eight threads put, read what they put and list, while the writer commits under them."""
    store = opened(fsync=False, batch_bytes=4000)
    failures: list[Exception] = []

    def work(thread: int) -> None:
        namespace = f"n{thread % 3}"
        try:
            for number in range(thread * 100, thread * 100 + 12):
                event, trace = made(number, namespace)
                store.put([(event, trace), made(7, namespace)])
                assert same_trace(store.trace(namespace, event.id), trace)
                assert event in store.events(namespace)
                assert store.get(namespace, [event.id]) == [event]
                if number % 7 == 0:
                    assert store.flush(30)
        except Exception as error:  # noqa: BLE001 - a thread's failure is asserted on below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum(store.namespaces().values()) == 8 * 12 + 3
    store.close()
    assert opened().verify() == []


def test_what_cannot_be_written_waits_and_is_written(
    opened: Opener, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "v14.store")
    store = opened()
    store.put([made(0)])
    assert store.flush(30)
    with place.broken():
        for number in range(1, 4):
            store.put([made(number)])
            assert store.flush(60), "a failing store keeps nobody waiting"
        assert store.stats().num_pending == 3
        assert store.events("home") == [made(number)[0] for number in range(4)]
        assert same_trace(store.trace("home", made(3)[0].id), made(3)[1])
        assert "new events stay in memory" in caplog.text
    wait_until(lambda: store.stats().num_pending == 0)
    assert store.stats().num_failed_writes == 0
    assert caplog.text.count("can be written again") == 1
    store.close()
    again = opened()
    assert readable(again, range(4))
    assert again.verify() == []


def test_beyond_the_bound_the_oldest_are_lost_and_counted(opened: Opener, place: Place) -> None:
    store = opened(max_failed_bytes=sum(made(number)[1].num_bytes for number in range(2, 4)))
    with place.broken():
        for number in range(4):
            store.put([made(number)])
            assert store.flush(60)
        wait_until(lambda: store.stats().num_failed_writes == 2, 60)
        assert store.events("home") == [made(2)[0], made(3)[0]]
    wait_until(lambda: store.stats().num_pending == 0)
    assert readable(store, range(2, 4))


def test_links_are_kept_with_the_larger_weight(opened: Opener) -> None:
    store = opened()
    ids = [made(number)[0].id for number in range(3)]
    one, other = (Link(source=ids[0], target=ids[number], kind="association", weight=0.5) for number in (1, 2))
    store.put([made(0), made(1)])
    store.link("home", [one, other])  # the other's end is not there
    store.link("home", [replace(one, weight=0.25)])
    assert store.links("home") == [one]
    assert store.flush(30)
    store.link("home", [replace(one, weight=0.75), replace(one, kind="supersedes")])
    assert store.flush(30)
    assert {(link.kind, link.weight) for link in store.links("home")} == {("association", 0.75), ("supersedes", 0.5)}
    assert store.links("work") == []
    store.unlink("home", [one])
    for _ in range(2):
        assert [link.kind for link in store.links("home")] == ["supersedes"]
        assert store.flush(30)


def test_changes_are_found_by_number(opened: Opener) -> None:
    store = opened()
    assert store.changes("home", 0).events == []
    store.put([made(2), made(1), made(1, "work")])
    pending = store.changes("home", 0)
    assert pending.events == [made(1)[0], made(2)[0]]
    assert store.flush(30)
    found = store.changes("home", 0)
    assert found.events == pending.events
    assert found.held is None
    nothing = store.changes("home", found.number)
    assert (nothing.events, nothing.held) == ([], None)
    assert nothing.number >= found.number


def test_what_is_forgotten_is_gone_and_the_rest_stays(opened: Opener, place: Place) -> None:
    store = opened(clock=lambda: 7.0)
    ids = [made(number)[0].id for number in range(8)]
    for numbers in (range(5), range(5, 6)):
        store.put([made(number) for number in numbers])
        assert store.flush(30)
    store.link("home", [Link(source=ids[0], target=ids[1], kind="association")])
    assert store.flush(30)
    before = set(place.segments())
    number = store.changes("home", 0).number
    assert store.forget("home", [ids[1], ids[5], ids[7]], requested_by="me") == 2
    assert store.forget("work", ids) == 0
    changes = store.changes("home", number)
    assert changes.held == {ids[0], *ids[2:5]}
    assert not before & set(place.segments()), "both segments held something that was forgotten"
    for _ in range(2):
        assert store.has("home", ids) == {ids[0], *ids[2:5]}
        assert store.links("home") == []
        assert all(same_trace(store.trace("home", made(number)[0].id), made(number)[1]) for number in (0, 2, 3, 4))
        assert store.verify() == []
        [record] = store.audit()
        assert (record.action, record.num_events, record.requested_by) == ("forget", 2, "me")
        assert record.finished_at == 7.0
        assert ids[1] not in str(record)
        store.close()
        store = opened()
    store.put([made(1)])
    assert store.flush(30)
    assert same_trace(store.trace("home", ids[1]), made(1)[1]), "said again, it is stored again"


def test_what_is_over_is_not_there(opened: Opener, place: Place) -> None:
    now = [10.0]
    store = opened(clock=lambda: now[0], tend_s=0.05)
    store.put([made(number) for number in range(4)])
    assert store.flush(30)
    store.set_policy("home", Policy(ttl_s=8.5))
    assert [event.said_at for event in store.events("home")] == [2.0, 3.0]
    wait_until(lambda: len(store.audit()) == 1)
    now[0] = 100.0
    assert store.namespaces() == {}
    wait_until(lambda: not place.segments())


def test_beyond_its_budget_a_namespace_forgets_what_was_not_asked_for_longest(opened: Opener) -> None:
    store = opened()
    store.put([made(number) for number in range(8)])
    store.touch("home", [made(0)[0].id], 100.0)
    assert store.flush(30)
    rows = {row.id: row_bytes(row) for row in store._catalog.rows("home")}
    store.set_policy("home", Policy(max_bytes=sum(rows.values()) * 2 // 3))
    num_evicted = store._writer.run(store._tender.keep_budgets)
    left = [event.token_ids[0] for event in store.events("home")]
    assert left == [0, *range(num_evicted + 1, 8)]
    assert sum(rows[made(number)[0].id] for number in left) <= sum(rows.values()) * 2 // 3
    assert store.verify() == []
    assert [(record.action, record.num_events) for record in store.audit()] == [("evict", num_evicted)]


def test_small_segments_become_one(opened: Opener, place: Place) -> None:
    store = opened()
    for number in range(FEW_SMALL):
        store.put([made(number)])
        assert store.flush(30)
    assert store._writer.run(store._tender.merge)
    assert len(place.segments()) == 1
    assert readable(store, range(FEW_SMALL))
    store.close()
    assert readable(opened(), range(FEW_SMALL))


def test_idle_traces_are_rewritten_smaller(opened: Opener) -> None:
    keeping = Keeping(idle=Form(codec="int8"), idle_s=5.0)
    store = opened(keeping=keeping, clock=lambda: 9.0)
    trace = Trace(keys=torch.randn(2, 8, 2, 64), values=torch.randn(2, 8, 2, 64))
    event = Event(namespace="home", chat_id="c", role="user", said_at=1.0, token_ids=tuple(range(8)))
    store.put([(event, trace), made(8)])
    assert store.flush(30)
    before = store.stats().num_bytes
    assert store._writer.run(store._tender.rewrite_one)
    assert store.stats().num_bytes < before
    assert (store.trace("home", event.id).keys - trace.keys).abs().max() < 0.1
    assert same_trace(store.trace("home", made(8)[0].id), made(8)[1])
    assert store.verify() == []
