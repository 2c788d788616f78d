"""Whatever goes wrong while something is put into the tree, the engine has all its slots afterwards."""

from collections import Counter
from contextlib import nullcontext, suppress
from types import SimpleNamespace

import pytest
import torch

from v14.engines.sglang import runtime
from v14.engines.sglang.hooks import span
from v14.engines.sglang.ranks import Ranks
from v14.explain import Account, Records
from v14.reinstate.transcripts import Placement

HEAD = 5
STATES = torch.zeros(2, 1, 1, 1), torch.zeros(2, 3, 1)


class Slots:
    """An allocator that knows which of its slots are out."""

    def __init__(self, num_slots):
        self.left = list(range(num_slots))
        self.out = set()

    def alloc(self, wanted):
        if wanted > len(self.left):
            return None
        taken, self.left = self.left[:wanted], self.left[wanted:]
        self.out.update(taken)
        return torch.tensor(taken)

    def free(self, slots):
        assert self.out.issuperset(slots.tolist())
        self.out.difference_update(slots.tolist())


class StateSlots(Slots):
    """The pool of states, with what a test lets fail in it."""

    def __init__(self, num_slots, fails):
        super().__init__(num_slots)
        self._fails = fails

    def take(self, tree_cache, evict):
        if self._fails == "take":
            raise RuntimeError("eviction failed")
        return self.alloc(1)

    def write(self, slot, states, inputs):
        if self._fails == "write":
            raise RuntimeError("out of memory")

    def give_back(self, slot):
        self.free(slot)


class Tree:
    """A prefix cache in which nothing is cached yet."""

    def __init__(self, num_slots, already_there=False):
        self.token_to_kv_pool_allocator = Slots(num_slots)
        self.locked = 0
        self.inserted = []
        self._already_there = already_there

    def match_prefix(self, params):
        return SimpleNamespace(device_indices=torch.empty(0, dtype=torch.int64), last_device_node="root")

    def inc_lock_ref(self, node):
        self.locked += 1
        return SimpleNamespace(to_dec_params=lambda: None)

    def dec_lock_ref(self, node, params):
        self.locked -= 1

    def insert(self, params):
        self.inserted.append(params)
        return SimpleNamespace(mamba_exist=self._already_there)


def insert(tree, states, buffers, monkeypatch):
    """`insert_head` of a request of `HEAD` tokens and more."""
    monkeypatch.setattr(span, "evict_from_tree_cache", lambda tree_cache, num_tokens: None)
    pool = SimpleNamespace(get_key_buffer=lambda layer: buffers, get_value_buffer=lambda layer: buffers)
    engine = SimpleNamespace(
        states=states,
        kv_pool=pool,
        memory=SimpleNamespace(profile=SimpleNamespace(geometry=SimpleNamespace(layers=[SimpleNamespace(index=0)]))),
        slots=lambda req, length: torch.arange(length),
        behind_forward=nullcontext,
        used_here=lambda *tensors: None,
        ranks=Ranks(),
    )
    req = SimpleNamespace(extra_key="a")
    reading = SimpleNamespace(sequence=SimpleNamespace(token_ids=tuple(range(8))))
    return span.insert_head(engine, req, tree, reading, HEAD, STATES)


@pytest.mark.parametrize("fails", ["take", "write", "fill"])
def test_slots_come_back_when_something_fails(fails, monkeypatch):
    tree, states = Tree(16), StateSlots(2, fails)
    buffers = torch.zeros(1 if fails == "fill" else 16, 2)
    with pytest.raises((RuntimeError, IndexError)):
        insert(tree, states, buffers, monkeypatch)
    assert not tree.token_to_kv_pool_allocator.out
    assert not states.out
    assert (tree.locked, tree.inserted) == (0, [])


@pytest.mark.parametrize(("num_slots", "num_states"), [(HEAD - 1, 2), (16, 0)])
def test_slots_come_back_when_there_is_no_room(num_slots, num_states, monkeypatch):
    tree, states = Tree(num_slots), StateSlots(num_states, None)
    assert not insert(tree, states, torch.zeros(16, 2), monkeypatch)
    assert not tree.token_to_kv_pool_allocator.out
    assert (tree.locked, tree.inserted) == (0, [])


@pytest.mark.parametrize("already_there", [False, True])
def test_the_tree_has_what_it_was_given(already_there, monkeypatch):
    """States that it had meanwhile it does not take."""
    tree, states = Tree(16, already_there), StateSlots(2, None)
    assert insert(tree, states, torch.zeros(16, 2), monkeypatch)
    [params] = tree.inserted
    assert tree.token_to_kv_pool_allocator.out == set(params.value.tolist()) == set(range(HEAD))
    assert len(states.out) == (0 if already_there else 1)
    assert tree.locked == 0


def fails():
    raise RuntimeError("a trace is damaged")


@pytest.mark.parametrize(
    ("place", "way", "tries", "chosen"),
    [
        (lambda: ["e"], "kv", 3, "kv"),
        (lambda: None, "reread", 1, "kv"),
        (fails, "reread", 1, "kv"),
        (fails, "reread", 0, "reread"),
    ],
    ids=["placed", "no room", "an error", "read again"],
)
def test_what_cannot_be_placed_is_tried_once(place, way, tries, chosen, monkeypatch):
    """A request that waits is matched with every pass; the tree of this test forgets what was placed."""
    tried = []
    monkeypatch.setattr(span, "_place", lambda *args: tried.append(args) or place())
    memory = SimpleNamespace(
        guard=lambda concern: suppress(RuntimeError),
        counters=Counter(),
        costs=SimpleNamespace(note=lambda *args: None),
    )
    engine = SimpleNamespace(memory=memory, rereading={})
    monkeypatch.setattr(span.returning, "way", lambda engine, num_tokens: chosen)
    account = Account(Records(), [], "r", trace=False)
    monkeypatch.setattr(runtime, "_runtime", engine)
    reading = SimpleNamespace(
        placements=(Placement(index=2, event_ids=("e",)),),
        sequence=SimpleNamespace(token_ids=tuple(range(8)), starts=(2,)),
        session=SimpleNamespace(
            events=lambda placement: [SimpleNamespace(num_tokens=3)],
            account=account,
            clock=account.clock,
            memory=memory,
        ),
        way=None,
    )
    req = SimpleNamespace(rid="r", extra_key="a", v14_reading=reading)
    for _ in range(3):
        span.place_before_match(req, Tree(16))
    assert (reading.way, len(tried)) == (way, tries)
    assert set(engine.rereading) == ({"r"} if way == "reread" else set())
    (standing,) = account.spans.values()
    assert (standing.position, standing.num_tokens, standing.way) == (2, 3, way)
    assert standing.composed == (("e",) if way == "kv" else ())
    assert memory.counters == {f"spans_{way}": 1}
