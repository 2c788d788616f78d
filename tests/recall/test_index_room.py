"""An index whose GPU runs out of memory: whatever it was doing, all it has goes on on the CPU, and nothing is lost.

The GPU is a stand-in on the CPU: it runs out where it is told to, and is left for the real CPU by moving.
"""

from types import SimpleNamespace

import pytest
import torch

from tests.recall.test_index import DIM, World
from tests.recall.test_votes import HEADS, values
from v14.recall import index as index_module
from v14.recall.coding import Code
from v14.recall.index import Index
from v14.recall.pool import Pool
from v14.recall.shortlist import Shortlist

CPU = torch.device("cpu")


class OnGpu(Index):
    """An index that takes itself for one on a GPU until it moves."""

    has_moved = False

    @property
    def device(self):
        return CPU if self.has_moved else SimpleNamespace(type="cuda")

    def move(self, form, device, **given):
        assert device == CPU
        self.has_moved = True
        super().move(form, device, **given)


class Room:
    """Memory of the stand-in: `fails` says which call of a step finds none, counted from 1."""

    def __init__(self, monkeypatch, index):
        self._monkeypatch, self._index = monkeypatch, index

    def fails(self, owner, step, call=1):
        """From that call on as long as the index has not moved."""
        original, calls = getattr(owner, step), []

        def limited(*args, **kwargs):
            calls.append(step)
            if not self._index.has_moved and len(calls) >= call:
                raise torch.OutOfMemoryError(f"no room in {step}")
            return original(*args, **kwargs)

        self._monkeypatch.setattr(owner, step, limited)


@pytest.fixture
def world(monkeypatch):
    made = World([7, 20, 3, 11] * 10, "subtract")
    monkeypatch.setattr(index_module, "Code", lambda *, device, **given: Code(device=CPU, **given))
    monkeypatch.setattr(index_module, "upload", lambda tensor, device: tensor.clone())
    monkeypatch.setattr(index_module, "_stream", lambda device: None)
    return made


def filled(world, ids, **given):
    """An index on the stand-in that has taken in some events."""
    index = OnGpu(world.geometry, world.voters, **given)
    for event_id in ids:
        index.add(event_id, world.keys[event_id])
    index.null_shares()
    assert not index.has_moved
    return index


def check(world, index, *, abs=1e-4):
    """All events are there with the votes of plain arithmetic, and can be taken out."""
    index.null_shares()
    assert index.device == CPU
    assert values(index, world.cue) == pytest.approx(world.exact(), abs=abs)
    assert len(index) == len(world.keys)
    for event_id in world.keys:
        index.remove(event_id)
    assert values(index, world.cue) == {}


def test_no_room_for_new_events(world, monkeypatch):
    ids = list(world.keys)
    index = filled(world, ids[:30], form="float32")
    Room(monkeypatch, index).fails(Pool, "append")
    for event_id in ids[30:]:
        index.add(event_id, world.keys[event_id])
    check(world, index, abs=0.2)


def test_no_room_for_a_second_page_of_new_events(world, monkeypatch):
    """The events of the first page are in it, and still to be calibrated."""
    monkeypatch.setattr("v14.recall.pool.PAGE_BYTES", 150 * 5 * DIM * 4)
    ids = list(world.keys)
    index = filled(world, ids[:2], form="float32")
    Room(monkeypatch, index).fails(Pool, "_empty")
    for event_id in ids[2:]:
        index.add(event_id, world.keys[event_id])
    check(world, index, abs=0.2)


@pytest.mark.parametrize(("owner", "step", "call"), [(Pool, "mean", 1), (Pool, "append", 2), (Pool, "append", 4)])
def test_no_room_to_change_the_form(world, monkeypatch, owner, step, call):
    monkeypatch.setattr(index_module, "WAITING_TOKENS", 1)
    monkeypatch.setattr(index_module, "RECODED_EVENTS", 8)
    ids = list(world.keys)
    index = filled(world, ids[:-1], form="int8")
    monkeypatch.setattr(index_module, "CENTRED_TOKENS", 50)
    monkeypatch.setattr(index_module, "PLAIN_BYTES", 0)
    Room(monkeypatch, index).fails(owner, step, call)
    index.add(ids[-1], world.keys[ids[-1]])
    check(world, index, abs=0.2)


@pytest.mark.parametrize("call", [1, 2])
def test_no_room_for_sketches(world, monkeypatch, call):
    """Some pages may have theirs already."""
    world.sketch()
    monkeypatch.setattr(index_module, "WAITING_TOKENS", 1)
    monkeypatch.setattr("v14.recall.shortlist.CHOSEN", len(world.keys))
    monkeypatch.setattr("v14.recall.pool.PAGE_BYTES", 150 * 5 * DIM * 2)
    ids = list(world.keys)
    index = filled(world, ids[:-1], form="bfloat16")
    assert len(index._pool.pages) > 2
    monkeypatch.setattr(index_module, "SCANNED_BYTES", 0)
    Room(monkeypatch, index).fails(Shortlist, "sketches", call)
    index.add(ids[-1], world.keys[ids[-1]])
    assert index._pool.is_sketched
    assert all(page.sketches is not None for page in index._pool.pages)
    assert len(index._shortlist.voters) < len(HEADS)
    check(world, index, abs=0.2)


def test_no_room_for_the_sketches_of_new_events(world, monkeypatch):
    world.sketch()
    monkeypatch.setattr(index_module, "WAITING_TOKENS", 1)
    monkeypatch.setattr("v14.recall.shortlist.CHOSEN", len(world.keys))
    monkeypatch.setattr(index_module, "SCANNED_BYTES", 0)
    ids = list(world.keys)
    index = filled(world, ids[:-1], form="bfloat16")
    assert index._pool.is_sketched
    Room(monkeypatch, index).fails(Shortlist, "sketches")
    index._pool._sketched = index._shortlist.sketches
    index.add(ids[-1], world.keys[ids[-1]])
    assert index._pool.is_sketched
    check(world, index, abs=0.2)


def test_on_the_cpu_there_is_nowhere_to_go(world, monkeypatch):
    """Whoever asked hears of it."""
    ids = list(world.keys)
    index = Index(world.geometry, world.voters)

    def fails(*args, **kwargs):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(Pool, "append", fails)
    with pytest.raises(torch.OutOfMemoryError):
        index.add_many(ids[:1], world.keys[ids[0]], [7])
