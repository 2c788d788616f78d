"""What the reader takes is what the model computed."""

import json

import pytest
import torch

from tests.tiny import FAMILIES, WINDOW, tiny_checkpoint
from v14.models import adapter_for
from v14.upgrade.reading import Reader, quiet_transformers

IDS = torch.randint(5, 900, (1, WINDOW + 9), generator=torch.Generator().manual_seed(2))[0].tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_queries_and_keys_give_the_models_own_attention(family):
    """Keys are those of the model's cache; softmax over them gives the weights that eager attention reports."""
    from transformers import AutoModelForCausalLM

    source = tiny_checkpoint(family)
    config = json.loads((source / "config.json").read_text())
    geometry = adapter_for(config).geometry(config)
    num_layers = len(geometry.layers) - 1
    with quiet_transformers():
        queries, keys = Reader(source, geometry, num_layers).read(IDS)
    assert sorted(keys) == sorted(queries) == [layer.index for layer in geometry.layers[:num_layers]]
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        output = model(torch.tensor([IDS]), output_attentions=True, use_cache=True)
    position = torch.arange(len(IDS))
    distance = position[:, None] - position
    for layer in geometry.layers[:num_layers]:
        if layer.window is None:
            cached = output.past_key_values.layers[layer.index].keys[0].transpose(0, 1)
            torch.testing.assert_close(keys[layer.index], cached, atol=1e-5, rtol=1e-4)
        repeated = keys[layer.index].repeat_interleave(geometry.group, dim=1)
        scores = torch.einsum("thd,shd->hts", queries[layer.index], repeated) * layer.scaling
        hidden = (distance < 0) | (distance >= (layer.window or len(IDS)))
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        torch.testing.assert_close(weights, output.attentions[layer.index][0], atol=1e-5, rtol=1e-4)
