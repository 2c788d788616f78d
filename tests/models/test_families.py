"""Geometry of every family against the modules, caches and rotations of the real Transformers model.

Windows and scalings are held against the model's own attention in `tests/upgrade/test_reading.py`.
"""

import json

import pytest
import torch
import transformers
from transformers import DynamicCache

from tests.tiny import EVERY_FAMILY, HYBRIDS, REREAD_ONLY, geometry_of, tiny_checkpoint
from v14.models import adapter_for
from v14.models.registry import ADAPTERS, FAMILIES
from v14.reinstate.rotation import rotate

GATED = ("qwen3_5", "qwen4_exp")
"""Families whose query projection makes an output gate as well."""

NUM_TOKENS = 23
SHIFT = 1234


@pytest.fixture(scope="module", params=EVERY_FAMILY)
def family(request):
    """Name, geometry, language model and adapter of a tiny checkpoint."""
    source = tiny_checkpoint(request.param)
    config = json.loads((source / "config.json").read_text())
    adapter = adapter_for(config)
    model = getattr(transformers, adapter.architecture).from_pretrained(source)
    return request.param, geometry_of(source), model.get_decoder().get_decoder().eval(), adapter


@torch.no_grad()
def read(decoder, first_position):
    """The cache after the same tokens, the first of them at a position of one's own choice."""
    ids = torch.randint(5, 900, (1, NUM_TOKENS), generator=torch.Generator().manual_seed(3))
    cache = DynamicCache(config=decoder.config)
    positions = torch.arange(first_position, first_position + NUM_TOKENS)[None]
    decoder(input_ids=ids, position_ids=positions, past_key_values=cache, use_cache=True)
    return cache


def modules_with(decoder, attribute):
    """Modules that have the attribute, by model layer index."""
    return {module.layer_idx: module for module in decoder.modules() if hasattr(module, attribute)}


def test_attention_layers_and_heads_are_the_models(family):
    name, geometry, decoder, _ = family
    found = modules_with(decoder, "k_proj")
    assert [layer.index for layer in geometry.layers] == sorted(found)
    for layer in geometry.layers:
        module = found[layer.index]
        size = geometry.num_heads * geometry.head_dim
        assert module.q_proj.out_features == size * (2 if name.startswith(GATED) else 1)
        assert module.k_proj.out_features == module.v_proj.out_features == geometry.num_kv_heads * geometry.head_dim
        assert module.scaling == layer.scaling


def test_keys_of_shifted_tokens_are_rotated_keys(family):
    """Attention knows distances only, so shifting a whole sequence turns its keys and changes nothing else."""
    _, geometry, decoder, _ = family
    here, there = read(decoder, 0), read(decoder, SHIFT)
    for layer in geometry.layers:
        before, after = (cache.layers[layer.index] for cache in (here, there))
        assert before.keys.shape == (1, geometry.num_kv_heads, NUM_TOKENS, geometry.head_dim)
        torch.testing.assert_close(after.keys, rotate(before.keys, layer.rotary, SHIFT), atol=2e-4, rtol=0)
        torch.testing.assert_close(after.values, before.values, atol=1e-4, rtol=0)
        if layer.rotary is not None:
            assert (after.keys - before.keys).abs().max() > 0.1


def test_recurrent_layers_are_the_models(family):
    name, geometry, decoder, _ = family
    stack, cache = geometry.recurrent, read(decoder, 0)
    # Feed-forward blocks of Nemotron-H have a place in the cache, too, and leave it empty.
    states = {i: layer for i, layer in enumerate(cache.layers) if getattr(layer, "conv_states", {}).get(0) is not None}
    if stack is None:
        assert not states
        assert name not in (*HYBRIDS, *REREAD_ONLY)
        return
    assert stack.indices == tuple(sorted(states))
    mixers = modules_with(decoder, "conv_kernel_size")
    for index in stack.indices:
        mixer = mixers[index]
        convolution = mixer.conv if stack.kind == "conv" else mixer.conv1d
        assert convolution.in_channels == convolution.groups == stack.conv_channels
        assert convolution.kernel_size == (stack.conv_width,)
        assert states[index].conv_states[0].shape[:2] == (1, stack.conv_channels)
        assert states[index].conv_states[0].shape[2] >= stack.conv_width - 1
        shape = {
            "gated_delta": (1, stack.num_heads, stack.key_dim, stack.value_dim),
            "mamba2": (1, stack.num_heads, stack.value_dim, stack.key_dim),
            "conv": None,
        }[stack.kind]
        state = states[index].recurrent_states[0]
        assert (state is None) if shape is None else (state.shape == shape)


@torch.no_grad()
def test_decays_differ_between_heads(family):
    """A law of exactness on states that forget at once, or all alike, would show little."""
    _, _, decoder, _ = family
    for module in modules_with(decoder, "A_log").values():
        rate = module.A_log.exp() * torch.nn.functional.softplus(module.dt_bias)
        assert len(set(rate.tolist())) == len(rate)
        assert float((-16 * rate).exp().max()) > 0.1


@pytest.mark.parametrize("name", ADAPTERS)
def test_defaults_are_transformers_own(name):
    """A config that leaves everything out that it may means what Transformers takes it to mean."""
    adapter = ADAPTERS[name]
    least = {"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 2, "num_hidden_layers": 8}
    if name.startswith("NemotronH"):
        least["hybrid_override_pattern"] = "M-*EM-M*"
    if name.startswith("Lfm2Moe"):
        least["layer_types"] = ["conv", "full_attention"] * 4
    if adapter.takes_pictures:
        least = {"text_config": least}
    filled = json.loads(getattr(transformers, adapter.config_class)(**least).to_json_string())
    assert adapter.geometry(least) == adapter.geometry(filled)


def test_a_family_is_a_module_and_a_line():
    assert list(FAMILIES) == sorted(FAMILIES)
    adapters = list(ADAPTERS.values())
    assert len({adapter.v14_name for adapter in adapters}) == len(adapters)
    tested = {adapter_for(json.loads((tiny_checkpoint(f) / "config.json").read_text())) for f in EVERY_FAMILY}
    assert tested == set(adapters), "every adapter has a tiny checkpoint"
    for adapter in adapters:
        model_class = getattr(transformers, adapter.architecture)
        assert model_class.config_class.__name__ == adapter.config_class
