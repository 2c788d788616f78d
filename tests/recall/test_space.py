"""Spaces: read from the store when asked for, dropped when there is no room, nothing of one in another."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import torch

from tests.memory_store import MemoryStore
from v14.errors import TraceCorruptError
from v14.geometry import AttentionLayer, Geometry
from v14.recall.space import Spaces
from v14.recall.voters import Voters
from v14.types import Cue, Event, Link, Trace

GEOMETRY = Geometry(
    num_heads=2, num_kv_heads=1, head_dim=4, layers=(AttentionLayer(index=0, rotary=None, scaling=0.5),)
)
NULL = Cue(queries=torch.zeros(1, 1, 4), context_lse=torch.zeros(1, 1))
VOTERS = Voters(heads=((0, 1),), weights=(1.0,), calibration="subtract", null=NULL)


def event(namespace, token, num_tokens=4):
    return Event(namespace=namespace, chat_id="c", role="user", said_at=float(token), token_ids=(token,) * num_tokens)


def filled(*namespaces, num_events=3):
    store = MemoryStore()
    for namespace in namespaces:
        for token in range(num_events):
            tensor = torch.randn(1, 4, 1, 4)
            store.put([(event(namespace, token), Trace(keys=tensor, values=tensor))])
    return store


def spaces_of(store, max_bytes=1e9):
    return Spaces(GEOMETRY, VOTERS, store, max_bytes, Counter())


def test_a_space_holds_what_its_namespace_has_stored():
    spaces = spaces_of(filled("a", "b"))
    cue = Cue(queries=torch.randn(1, 2, 4), context_lse=torch.zeros(1, 2))
    assert {vote.event_id for vote in spaces.get("a").votes(cue).best(9)} == {
        event("a", token).id for token in range(3)
    }
    assert [e.namespace for e in spaces.get("b").events.values()] == ["b"] * 3
    assert spaces.get("c").votes(cue).best(9) == []


def test_the_last_tokens_of_a_cue_have_parts_of_a_vote():
    space = spaces_of(filled("a")).get("a")
    ids = [event("a", token).id for token in range(3)]
    cue = Cue(queries=torch.randn(1, 11, 4), context_lse=torch.zeros(1, 11))
    late = space.late(cue, [*ids, "sha256:none"])
    assert list(late) == ids
    whole = space.token_weights(cue, ids) * 11
    for event_id, weights in zip(ids, whole.tolist(), strict=True):
        assert late[event_id] == pytest.approx(weights[:-9:-1], abs=1e-6)
    short = Cue(queries=cue.queries[:, :2], context_lse=cue.context_lse[:, :2])
    assert all(len(parts) == 2 for parts in space.late(short, ids).values())
    assert space.late(cue, []) == {}


def test_a_link_goes_at_once():
    store = filled("a")
    old, new, newest = (event("a", token).id for token in range(3))
    links = [Link(source=new, target=old, kind="supersedes"), Link(source=newest, target=old, kind="supersedes")]
    store.link("a", links)
    spaces = spaces_of(store)
    assert spaces.get("a").superseded == {old: {new: 1.0, newest: 1.0}}
    spaces.unlink("nobody", links[0])
    spaces.unlink("a", Link(source=old, target=new, kind="supersedes"))
    spaces.unlink("a", links[0])
    assert spaces.get("a").superseded == {old: {newest: 1.0}}
    spaces.get("a").link_anew(links[:1])
    assert spaces.get("a").superseded == {old: {new: 1.0}}


def test_the_least_recently_used_is_dropped_and_read_again():
    store = filled("a", "b", "c")
    one = spaces_of(store).get("a").index.num_bytes
    spaces = spaces_of(store, max_bytes=2.5 * one)
    first = spaces.get("a")
    assert spaces.get("b") is spaces.get("b")
    assert spaces.get("a") is first
    spaces.get("c")
    assert spaces.get("a") is first
    again = spaces.get("b")
    assert again.events.keys() == {event("b", token).id for token in range(3)}


def test_an_event_that_cannot_be_read_is_left_out_and_counted():
    store = filled("a")
    broken = event("a", 1).id
    read = store.keys_of_layers

    def keys_of_layers(namespace, event_id, slots):
        if event_id == broken:
            raise TraceCorruptError("broken")
        return read(namespace, event_id, slots)

    store.keys_of_layers = keys_of_layers
    spaces = spaces_of(store)
    assert broken not in spaces.get("a").events
    assert len(spaces.get("a").events) == 2
    assert spaces.counters["corrupt_events"] == 1


def test_only_so_many_namespaces_are_held(monkeypatch):
    monkeypatch.setattr("v14.recall.space.MAX_SPACES", 3)
    spaces = spaces_of(filled())
    first, second = spaces.get("0"), spaces.get("1")
    for name in ("2", "0", "3"):
        spaces.get(name)
    assert spaces.get("0") is first
    assert spaces.get("1") is not second


def test_what_is_added_later_counts():
    """A size is measured when its namespace is asked for, no others' with it."""
    store = filled("a", "b", num_events=1)
    spaces = spaces_of(store, max_bytes=3 * spaces_of(store).get("a").num_bytes)
    first, other = spaces.get("a"), spaces.get("b")
    for token in range(100, 100 + 40):
        other.add(event("b", token), torch.randn(1, 4, 1, 4))
    with first.lock, ThreadPoolExecutor(1) as pool:
        assert pool.submit(spaces.get, "b").result(timeout=30) is other
    assert spaces.get("a") is not first


def test_sizes_are_not_taken_while_another_thread_adds_to_an_index():
    """What was read is added in the background; counting an index that grows would fail there."""
    spaces = spaces_of(filled("a"))
    growing = spaces.get("a")
    with ThreadPoolExecutor(1) as pool:
        with growing.lock:
            other = pool.submit(spaces.get, "a")
            assert not wait([other], timeout=0.2).done
        assert other.result(timeout=30) is growing
