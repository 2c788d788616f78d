"""What the reader takes is what the model computed."""

import json

import pytest
import torch

from tests.tiny import EVERY_FAMILY, REREAD_ONLY, WINDOW, tiny_checkpoint
from v14.models import adapter_for
from v14.recall.voters import Voters
from v14.types import Cue
from v14.upgrade.reading import Reader, quiet_transformers

NUM_TOKENS = WINDOW + 9
NUM_INDEXED = 30
"""Tokens that Qwen4-Exp's index leaves visible all; votes are taken as if it always did."""


def everyone(reader, geometry, num_layers):
    """All heads of the first layers as voters."""
    heads = tuple((layer.index, head) for layer in geometry.layers[:num_layers] for head in range(geometry.num_heads))
    nobody = Cue(queries=torch.zeros(len(heads), 1, geometry.head_dim), context_lse=torch.zeros(len(heads), 1))
    sinks = reader.sinks(heads)
    return Voters(heads=heads, weights=(1.0,) * len(heads), calibration="subtract", null=nobody, sinks=sinks)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_queries_and_keys_give_the_models_own_attention(family):
    """Keys are those of the model's cache, and a cue's scores over its log-sum-exp give the weights that eager
    attention reports: rotation, scaling, windows and sinks are the model's."""
    import transformers

    source = tiny_checkpoint(family)
    config = json.loads((source / "config.json").read_text())
    adapter = adapter_for(config)
    geometry = adapter.geometry(config)
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(5, 900, (NUM_INDEXED if family in REREAD_ONLY else NUM_TOKENS,), generator=generator).tolist()
    num_layers = len(geometry.layers) - 1
    with quiet_transformers():
        reader = Reader(source, geometry, num_layers)
        _, keys = reader.read(ids)
        voters = everyone(reader, geometry, num_layers)
        cue = reader.cue(ids, 0, voters, len(ids))
        model = getattr(transformers, adapter.architecture).from_pretrained(source, attn_implementation="eager")
        decoder = model.get_decoder().get_decoder().eval()
    assert sorted(keys) == [layer.index for layer in geometry.layers[:num_layers]]
    with torch.no_grad():
        output = decoder(torch.tensor([ids]), output_attentions=True, use_cache=True)
    attentions = [weights for weights in output.attentions if weights is not None]
    position = torch.arange(len(ids))
    distance = position[:, None] - position
    for slot, layer in enumerate(geometry.layers[:num_layers]):
        if layer.window is None:
            cached = output.past_key_values.layers[layer.index].keys[0].transpose(0, 1)
            torch.testing.assert_close(keys[layer.index], cached, atol=1e-5, rtol=1e-4)
        mine = slice(slot * geometry.num_heads, (slot + 1) * geometry.num_heads)
        repeated = keys[layer.index].repeat_interleave(geometry.group, dim=1)
        scores = torch.einsum("htd,shd->hts", cue.queries[mine], repeated) * layer.scaling
        hidden = (distance < 0) | (distance >= (layer.window or len(ids)))
        weights = (scores - cue.context_lse[mine, :, None]).masked_fill(hidden, -torch.inf).exp()
        torch.testing.assert_close(weights, attentions[slot][0], atol=1e-5, rtol=1e-4)
        assert (weights.sum(-1) < 1 - 1e-4).all() == bool(voters.sinks)


def test_a_short_reader_loads_no_more_than_it_reads():
    source = tiny_checkpoint("nemotron_h")
    config = json.loads((source / "config.json").read_text())
    geometry = adapter_for(config).geometry(config)
    with quiet_transformers():
        reader = Reader(source, geometry, 1)
    assert len(reader._model.layers) == geometry.layers[0].index + 1 < config["num_hidden_layers"]
