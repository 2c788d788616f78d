"""Keys and values copied off the pool are those that `Session.observe` reads, event by event."""

from types import SimpleNamespace

import pytest
import torch

from tests.tiny import geometry_of, tiny_checkpoint, tiny_profile
from v14.engines.sglang.harvest import Harvest
from v14.recall.votes import voter_keys
from v14.reinstate.rotation import move_keys, rotate

ON_GPU = pytest.mark.gpu


@pytest.mark.parametrize("family", ["llama", "gemma3", "nemotron_h"])
@pytest.mark.parametrize(
    ("device", "share"),
    [("cpu", 0.0), pytest.param("cuda", 0.0, marks=ON_GPU), pytest.param("cuda", 1.0, marks=ON_GPU)],
)
def test_traces_begin_at_position_zero(family, device, share, monkeypatch):
    monkeypatch.setattr("v14.engines.sglang.harvest.ROOM_SHARE", share)
    geometry = geometry_of(tiny_checkpoint(family))
    shape = (64, geometry.num_kv_heads, geometry.head_dim)
    buffers = {
        layer.index: (torch.randn(shape, device=device), torch.randn(shape, device=device)) for layer in geometry.layers
    }
    pool = SimpleNamespace(
        get_key_buffer=lambda layer: buffers[layer][0], get_value_buffer=lambda layer: buffers[layer][1]
    )
    row = torch.randperm(64, dtype=torch.int32, device=device)
    runs = [(3, 4), (9, 20), (20, 33)]
    harvest = Harvest(pool, geometry, row, runs)
    # What is given back may be written over by what is queued behind.
    read = {index: tuple(buffer.cpu().clone() for buffer in pair) for index, pair in buffers.items()}
    for pair in buffers.values():
        for buffer in pair:
            buffer.fill_(torch.nan)
    harvest.wait()
    for index, (start, end) in enumerate(runs):
        trace = harvest.trace(index, None)
        slots = row[start:end].long().cpu()
        keys = torch.stack([read[layer.index][0][slots] for layer in geometry.layers])
        values = torch.stack([read[layer.index][1][slots] for layer in geometry.layers])
        torch.testing.assert_close(trace.keys, move_keys(keys, geometry, -start), rtol=0, atol=1e-5)
        assert torch.equal(trace.values, values)
    assert harvest.views() is None


@pytest.mark.parametrize("family", ["llama", "nemotron_h"])
def test_what_voters_read_of_runs_together_is_what_they_read_of_each(family):
    profile = tiny_profile(family)
    geometry, voters = profile.geometry, profile.voters
    shape = (64, geometry.num_kv_heads, geometry.head_dim)
    buffers = {layer.index: (torch.randn(shape), torch.randn(shape)) for layer in geometry.layers}
    pool = SimpleNamespace(
        get_key_buffer=lambda layer: buffers[layer][0], get_value_buffer=lambda layer: buffers[layer][1]
    )
    runs = [(3, 4), (9, 20), (20, 33)]
    harvest = Harvest(pool, geometry, torch.randperm(64, dtype=torch.int32), runs, voters)
    harvest.wait()
    for index, view in enumerate(harvest.views()):
        keys = harvest.trace(index, None).keys[voters.slots(geometry)]
        torch.testing.assert_close(view, voter_keys(keys, geometry, voters), rtol=0, atol=1e-5)


def test_tokens_moved_each_by_its_own_are_moved_one_by_one():
    [rotary] = {layer.rotary for layer in geometry_of(tiny_checkpoint("llama")).layers}
    x, deltas = torch.randn(5, 2, 16), torch.tensor([0, -3, 7, 1000, -1000])
    together = rotate(x, rotary, deltas)
    one_by_one = torch.stack([rotate(token, rotary, delta) for token, delta in zip(x, deltas.tolist(), strict=True)])
    torch.testing.assert_close(together, one_by_one, rtol=0, atol=1e-6)
