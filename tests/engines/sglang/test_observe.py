"""What a finished request leaves: its prompt's events, each once, with the keys and values that stand in its slots."""

from types import SimpleNamespace

import pytest
import torch

from tests.memory_store import MemoryStore
from tests.tiny import chat_ids, tiny_checkpoint, tiny_profile
from v14.config import Switches
from v14.engines.sglang import runtime
from v14.engines.sglang.hooks import observe
from v14.engines.sglang.ranks import Ranks
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.ticket import Ticket
from v14.memory import Memory
from v14.reinstate.rotation import move_keys

WRITTEN = 6
NAMESPACE = "a"


class Engine:
    """What the hook uses of a `Runtime`: pools with a row of slots, and a memory."""

    def __init__(self, **options):
        self.memory = Memory.open(tiny_profile("llama", **options), Switches(), store=MemoryStore())
        geometry = self.memory.profile.geometry
        shape = (256, geometry.num_kv_heads, geometry.head_dim)
        self.buffers = {layer.index: (torch.randn(shape), torch.randn(shape)) for layer in geometry.layers}
        self.row = torch.randperm(256, dtype=torch.int32)
        self.kv_pool = SimpleNamespace(
            get_key_buffer=lambda layer: self.buffers[layer][0], get_value_buffer=lambda layer: self.buffers[layer][1]
        )
        self.probing = {}
        self.states = None
        self.ranks = Ranks()

    def slots(self, req, length):
        return self.row[:length]

    def write_behind(self, namespace, write):
        assert namespace == NAMESPACE
        write()

    def events(self):
        return self.memory.store.events(NAMESPACE)


def finished(engine, ids, *, mode="both", committed=None, is_over=True):
    """A request of the prompt `ids` that wrote `WRITTEN` tokens, all but the last of them read."""
    session = engine.memory.session(NAMESPACE)
    reading = Reading(
        ticket=Ticket(namespace=NAMESPACE, mode=mode),
        session=session,
        token_ids=tuple(ids),
        layout=session.layout(ids),
        placements=(),
        sequence=session.sequence(ids, ()),
    )
    length = len(ids) + WRITTEN - 1 if committed is None else committed
    return SimpleNamespace(
        rid="r",
        v14_reading=reading,
        output_ids=list(range(300, 300 + WRITTEN)),
        finished=lambda: is_over,
        kv=SimpleNamespace(req_pool_idx=0),
        owned_kv_len=lambda: length,
    )


@pytest.fixture
def ids():
    return chat_ids(tiny_checkpoint("llama"), [("user", "The garden door is blue.")])


@pytest.fixture
def engine(monkeypatch):
    made = Engine(write_generated=False)
    monkeypatch.setattr(runtime, "_runtime", made)
    return made


def test_the_prompt_is_stored_once(engine, ids):
    req = finished(engine, ids)
    observe.store_finished(req, None)
    [event] = engine.events()
    assert (event.role, event.namespace) == ("user", NAMESPACE)
    start = "".join(map(chr, ids)).index("".join(map(chr, event.token_ids)))
    slots = engine.row[start : start + event.num_tokens].long()
    trace = engine.memory.store.trace(NAMESPACE, event.id)
    keys, values = (torch.stack([pair[half][slots] for pair in engine.buffers.values()]) for half in (0, 1))
    torch.testing.assert_close(trace.keys, move_keys(keys, engine.memory.profile.geometry, -start), rtol=0, atol=1e-6)
    assert torch.equal(trace.values, values)
    observe.store_finished(req, None)
    observe.store_finished(finished(engine, ids), None)
    assert engine.memory.counters["events_stored"] == 1


@pytest.mark.parametrize(
    "changes", [{"committed": 5}, {"mode": "read"}, {"is_over": False}], ids=["cut off", "only reads", "retracted"]
)
def test_what_was_not_read_or_not_to_be_kept_is_not_stored(engine, ids, changes):
    observe.store_finished(finished(engine, ids, **changes), None)
    assert engine.events() == []
    assert not [name for name in engine.memory.counters if name.startswith("failed")]


def test_a_retracted_request_is_stored_at_its_end(engine, ids):
    req = finished(engine, ids, is_over=False)
    observe.store_finished(req, None)
    req.finished = lambda: True
    observe.store_finished(req, None)
    assert len(engine.events()) == 1


def test_of_a_reply_only_what_was_read_is_stored(monkeypatch, ids):
    engine = Engine(write_generated=True)
    monkeypatch.setattr(runtime, "_runtime", engine)
    observe.store_finished(finished(engine, ids), None)
    told, reply = engine.events()
    assert (told.role, reply.role) == ("user", "assistant")
    assert reply.token_ids[-(WRITTEN - 1) :] == tuple(range(300, 300 + WRITTEN - 1))


def test_a_store_that_fails_costs_the_request_nothing(engine, ids, monkeypatch):
    monkeypatch.setattr(engine.memory.store, "put", lambda events: 1 / 0)
    observe.store_finished(finished(engine, ids), None)
    assert engine.memory.counters["failed_observe"] == 1
