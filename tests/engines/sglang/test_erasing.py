"""Forgetting beside a running engine: which requests have to end, what is cleared, and orders that go wrong."""

import json
from collections import Counter
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch

from tests.fake_scheduler import Request, Scheduler
from tests.memory_store import MemoryStore
from tests.test_forgetting import tell
from tests.tiny import tiny_profile
from v14.config import Switches
from v14.engines.sglang import arriving, control, erasing
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.ticket import Ticket
from v14.memory import Memory
from v14.reinstate.transcripts import Placement

NUM_SLOTS = 16


class Allocator:
    """Slots of a pool; some of them are in use."""

    def __init__(self, in_use):
        self.size = NUM_SLOTS
        self.free_slots = [slot for slot in range(NUM_SLOTS) if slot not in in_use]

    def available_size(self):
        return len(self.free_slots)

    def alloc(self, wanted):
        taken, self.free_slots = self.free_slots[:wanted], self.free_slots[wanted:]
        return torch.tensor(taken)

    def free(self, slots):
        self.free_slots += slots.tolist()


@pytest.fixture
def engine(monkeypatch):
    """An engine whose slots 3 and 4 are in use; `aborted` are the requests that it was told to end."""
    scheduler = Scheduler()
    memory = Memory.open(tiny_profile("llama"), Switches(), store=MemoryStore())
    engine = Runtime(memory, scheduler)
    layers = [layer.index for layer in memory.profile.geometry.layers]
    buffers = {layer: (torch.ones(NUM_SLOTS, 2), torch.ones(NUM_SLOTS, 2)) for layer in layers}
    pool = SimpleNamespace(
        get_key_buffer=lambda layer: buffers[layer][0], get_value_buffer=lambda layer: buffers[layer][1]
    )
    allocator = Allocator({3, 4})
    allocator.get_kvcache = lambda: pool
    scheduler.token_to_kv_pool_allocator = allocator
    scheduler.evicted, scheduler.aborted = [], []
    scheduler.tree_cache = SimpleNamespace(evict=scheduler.evicted.append)
    scheduler.abort_request = lambda recv_req: scheduler.aborted.append(recv_req.rid)
    scheduler.device, scheduler.enable_overlap = "cpu", False
    scheduler.is_fully_idle = lambda: True
    engine.buffers = buffers
    monkeypatch.setattr(erasing, "scrub", lambda: None)
    return engine


def runs(engine, rid, namespace, token_ids, placements=(), *, shared=(), row=0):
    """A request in flight; `row` None is one that has ended."""
    session = engine.memory.session(namespace, shared)
    layout = SimpleNamespace(new_start=0, placements=())
    ticket = Ticket(namespace=namespace, mode="both", shared=tuple(shared))
    reading = arriving.reading_of(engine, ticket, session, tuple(token_ids), layout, tuple(placements))
    req = Request(rid=rid, v14_reading=reading, kv=SimpleNamespace(req_pool_idx=row))
    engine.attached[rid] = req
    return req


def test_requests_that_hold_it_end_and_the_others_go_on(engine):
    gone, kept = tell(engine.memory, "n", [400, 401, 402]), tell(engine.memory, "n", [500, 501])
    tell(engine.memory, "m", [400, 401, 402])
    at = Placement(index=0, event_ids=(gone.id,))
    held = [
        runs(engine, "recalls it", "n", [1, 2], [at]),
        runs(engine, "says it", "n", [1, 400, 401, 402, 2]),
        runs(engine, "reads it", "r", [1, 2], [at], shared=["n"]),
    ]
    others = [
        runs(engine, "recalls another", "n", [1, 2], [Placement(index=0, event_ids=(kept.id,))]),
        runs(engine, "another's, in the same words", "m", [1, 400, 401, 402, 2], [at]),
        runs(engine, "says it, and reads", "r", [400, 401, 402], shared=["n"]),
        runs(engine, "is over", "n", [1, 400, 401, 402, 2], row=None),
    ]
    done = erasing.Eraser(engine).erase("n", [gone], "event", "owner")
    assert (done["forgotten"], done["ids"], done["in_flight"]) == (1, [gone.id], 3)
    assert sorted(engine.scheduler.aborted) == sorted(req.rid for req in held)
    assert [req.v14_reading.is_stored for req in (*held, *others)] == [True] * 3 + [False] * 4
    assert engine.memory.store.forgotten == [("n", "event", "owner", 1)]
    for req in held:
        req.kv.req_pool_idx = None
    assert erasing.Eraser(engine).finish("n", [gone.id]) == 0


def test_what_is_free_is_cleared_and_the_rest_is_not(engine):
    erasing.Eraser(engine).finish("n", [])
    for keys, values in engine.buffers.values():
        for buffer in (keys, values):
            assert [bool(row.any()) for row in buffer] == [slot in (3, 4) for slot in range(NUM_SLOTS)]
    assert engine.scheduler.token_to_kv_pool_allocator.available_size() == NUM_SLOTS - 2
    assert [params.num_tokens for params in engine.scheduler.evicted] == [NUM_SLOTS]


def test_slots_come_back_when_clearing_fails(engine, monkeypatch):
    @contextmanager
    def failing():
        raise RuntimeError("out of memory")
        yield

    monkeypatch.setattr(engine, "behind_forward", failing)
    with pytest.raises(RuntimeError):
        erasing.Eraser(engine).finish("n", [])
    assert engine.scheduler.token_to_kv_pool_allocator.available_size() == NUM_SLOTS - 2


def test_recurrent_states_that_are_free_are_cleared(engine):
    cleared = Counter()
    engine.state_pool = SimpleNamespace(num_slots=5, clear_free=lambda: cleared.update(["yes"]))
    engine.behind_forward = nullcontext
    erasing.Eraser(engine).finish("n", [])
    assert cleared["yes"] == 1
    assert engine.scheduler.evicted[-1].mamba_num == 5


def orders(engine, what, **arguments):
    return control.answer(engine, control.order(what, **arguments))


def test_orders_are_answered_and_what_is_wrong_is_said(engine):
    event = tell(engine.memory, "n", [400, 401], said_at=5.0)
    assert orders(engine, "namespaces") == {"namespaces": {"n": 1}}
    page = orders(engine, "events", namespace="n", selection={"everything": True})
    assert page["num_events"] == 1
    assert json.loads(json.dumps(page))["events"][0]["token_ids"] == [400, 401]
    assert orders(engine, "forget", namespace="n", selection={"ids": [event.id]})["forgotten"] == 1
    assert orders(engine, "forget", namespace="n", selection={})["status"] == 404
    assert orders(engine, "forget", namespace="n", selection={"request": "r"})["status"] == 404
    assert orders(engine, "explain", namespace="n", request_id="r")["status"] == 404
    assert orders(engine, "dance")["status"] == 500
    assert control.answer(None, control.order("namespaces"))["status"] == 503


def test_an_order_fills_the_sockets_buffer():
    """What came before it through the same socket does not stay there."""
    assert len(control.order("namespaces")) > 2 * 8192
