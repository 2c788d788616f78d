"""Geometry from raw configs, against Transformers' own configs and rotary embedding modules."""

import json

import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, Qwen2Config, Qwen3Config
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from v14.errors import UnsupportedModelError
from v14.geometry import Geometry
from v14.models import adapter_for, base_architecture
from v14.models.registry import ADAPTERS

SMALL = {
    "hidden_size": 96,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_hidden_layers": 7,
    "max_position_embeddings": 4096,
}
FAMILIES = {
    "LlamaForCausalLM": (LlamaConfig, LlamaRotaryEmbedding),
    "Qwen2ForCausalLM": (Qwen2Config, Qwen2RotaryEmbedding),
    "Qwen3ForCausalLM": (Qwen3Config, Qwen3RotaryEmbedding),
}
ROPES = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
    "yarn-betas": {
        "rope_type": "yarn",
        "factor": 16.0,
        "original_max_position_embeddings": 256,
        "beta_fast": 20,
        "beta_slow": 2,
        "truncate": False,
    },
}


def raw(config, architecture):
    """What `save_pretrained` writes."""
    return {**json.loads(config.to_json_string()), "architectures": [architecture]}


@pytest.mark.parametrize("rope", ROPES)
@pytest.mark.parametrize("architecture", FAMILIES)
@pytest.mark.parametrize("style", ["rope_parameters", "rope_scaling"])
def test_inv_freq_is_transformers_own(architecture, rope, style):
    config_class, module = FAMILIES[architecture]
    config = config_class(**SMALL, rope_parameters={**ROPES[rope], "rope_theta": 50_000.0})
    data = raw(config, architecture)
    if style == "rope_scaling":
        parameters = data.pop("rope_parameters")
        data["rope_theta"] = parameters.pop("rope_theta")
        data["rope_scaling"] = None if rope == "default" else {**parameters, "type": parameters["rope_type"]}
    geometry = adapter_for(data).geometry(data)
    expected = module(config).inv_freq
    assert len({layer.rotary for layer in geometry.layers}) == 1
    torch.testing.assert_close(torch.tensor(geometry.layers[0].rotary.inv_freq), expected, rtol=1e-6, atol=0)
    assert (geometry.num_heads, geometry.num_kv_heads, geometry.head_dim) == (6, 2, 32)
    assert [layer.index for layer in geometry.layers] == list(range(7))
    assert geometry.layers[0].scaling == 32**-0.5


@pytest.mark.parametrize("style", ["rope_parameters", "older keys"])
@pytest.mark.parametrize("rope", ["default", "linear"])
def test_gemma3_has_two_rotaries(rope, style):
    parameters = {
        "full_attention": {**ROPES[rope], "rope_theta": 900_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 9_000.0},
    }
    config = Gemma3TextConfig(**SMALL, rope_parameters=parameters, sliding_window=17, query_pre_attn_scalar=100)
    data = raw(config, "Gemma3ForCausalLM")
    if style == "older keys":
        del data["rope_parameters"], data["layer_types"]
        data |= {"rope_theta": 900_000.0, "rope_local_base_freq": 9_000.0, "sliding_window_pattern": 6}
        data["rope_scaling"] = None if rope == "default" else ROPES[rope]
    geometry = adapter_for(data).geometry(data)
    module = Gemma3RotaryEmbedding(config)
    for layer, kind in zip(geometry.layers, config.layer_types, strict=True):
        expected = getattr(module, f"{kind}_inv_freq")
        torch.testing.assert_close(torch.tensor(layer.rotary.inv_freq), expected, rtol=1e-6, atol=0)
        assert layer.window == (17 if kind == "sliding_attention" else None)
        assert layer.scaling == 0.1
    assert Geometry.from_json(json.loads(json.dumps(geometry.to_json()))) == geometry


def test_qwen_windows_follow_use_sliding_window():
    on, off = (
        raw(Qwen2Config(**SMALL, use_sliding_window=use, sliding_window=33, max_window_layers=5), "Qwen2ForCausalLM")
        for use in (True, False)
    )
    for data in (on, {k: v for k, v in on.items() if k != "layer_types"}):
        assert [layer.window for layer in adapter_for(data).geometry(data).layers] == [None] * 5 + [33] * 2
    assert {layer.window for layer in adapter_for(off).geometry(off).layers} == {None}


@pytest.mark.parametrize("rope", ["dynamic", "longrope", "proportional"])
@pytest.mark.parametrize("architecture", [name for name in ADAPTERS if not name.startswith("NemotronH")])
def test_position_dependent_ropes_are_refused_by_name(architecture, rope):
    scaling = {"rope_type": rope, "factor": 2.0}
    data = {**SMALL, "architectures": [architecture], "rope_scaling": scaling}
    with pytest.raises(UnsupportedModelError, match=rope):
        adapter_for(data).geometry(data)


@pytest.mark.parametrize(
    "name",
    ["Gemma3ForConditionalGeneration", "Lfm3ForCausalLM", "MambaForCausalLM", "LlamaV14ForCausalLM"],
)
def test_unknown_architectures_are_refused_by_name(name):
    with pytest.raises(UnsupportedModelError, match=name):
        adapter_for({"architectures": [name]})


def test_names():
    for architecture, adapter in ADAPTERS.items():
        if architecture != "NemotronH_Omni_Reasoning_V3":
            assert adapter.v14_name == architecture.replace("For", "V14For")
        assert base_architecture(adapter.v14_name) == base_architecture(architecture) == architecture
    assert base_architecture("NemotronHV14ForConditionalGeneration") == "NemotronH_Omni_Reasoning_V3"


def qwen3_5(architecture="Qwen3_5ForCausalLM", **keys):
    return ADAPTERS[architecture].geometry({**SMALL, **keys})


def test_layers_named_one_by_one_or_by_their_interval():
    kinds = ["linear_attention", "linear_attention", "full_attention"] * 2 + ["linear_attention"]
    assert qwen3_5(layer_types=kinds) == qwen3_5(full_attention_interval=3)
    assert [layer.index for layer in qwen3_5().layers] == [3]
    assert qwen3_5(layer_types=["full_attention"] * 7).recurrent is None
    with pytest.raises(UnsupportedModelError, match="no attention layer"):
        qwen3_5(layer_types=["linear_attention"] * 7)
    nemotron = ADAPTERS["NemotronHForCausalLM"].geometry
    newer = ["linear_attention", "mlp", "full_attention", "moe"]
    older = ["mamba", "mlp", "attention", "moe"]
    named = [nemotron({**SMALL, "layers_block_type": kinds}) for kinds in (newer, older)]
    assert named[0] == named[1] == nemotron({**SMALL, "hybrid_override_pattern": "M-*E"})
    assert [layer.index for layer in named[0].layers] == [2]
    assert named[0].recurrent.indices == (0,)
    with pytest.raises(UnsupportedModelError, match="'X'"):
        nemotron({**SMALL, "hybrid_override_pattern": "M-*X"})
    lfm2 = ADAPTERS["Lfm2ForCausalLM"].geometry
    assert [layer.index for layer in lfm2({**SMALL, "full_attn_idxs": [2, 5]}).layers] == [2, 5]
    with pytest.raises(UnsupportedModelError, match="no attention layer"):
        lfm2({**SMALL, "full_attn_idxs": []})


def test_a_nested_language_model_is_read_as_a_plain_one():
    for nested, plain in (
        ("Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"),
        ("Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"),
        ("Qwen4ExpForConditionalGeneration", "Qwen4ExpForCausalLM"),
    ):
        inner = {**SMALL, "rope_parameters": {"rope_theta": 1e7, "partial_rotary_factor": 0.5}}
        whole = {"text_config": inner, "vision_config": {"hidden_size": 1}, "num_attention_heads": 1}
        assert ADAPTERS[nested].geometry(whole) == ADAPTERS[plain].geometry(inner)
    inner = {**SMALL, "hybrid_override_pattern": "M-*"}
    whole = {"llm_config": inner}
    assert ADAPTERS["NemotronH_Omni_Reasoning_V3"].geometry(whole) == ADAPTERS["NemotronHForCausalLM"].geometry(inner)


def test_indexed_attention_is_not_placeable():
    for name, adapter in ADAPTERS.items():
        pattern = {"hybrid_override_pattern": "M-*"} if name.startswith("NemotronH") else {}
        geometry = adapter.geometry({**SMALL, **pattern})
        assert geometry.placeable == (not name.startswith("Qwen4Exp"))
        assert Geometry.from_json(json.loads(json.dumps(geometry.to_json()))) == geometry
    named = ADAPTERS["Qwen4ExpForCausalLM"].geometry
    kinds = [["linear_attention"] * 6 + [kind] for kind in ("indexed_attention", "full_attention")]
    assert named({**SMALL, "layer_types": kinds[0]}) == named({**SMALL, "layer_types": kinds[1]})


def test_windows_of_all_layers_and_of_every_second():
    mistral, moe, oss = (
        ADAPTERS[n].geometry for n in ("MistralForCausalLM", "Qwen3MoeForCausalLM", "GptOssForCausalLM")
    )
    assert {layer.window for layer in mistral({**SMALL, "sliding_window": None}).layers} == {None}
    assert {layer.window for layer in mistral({**SMALL, "sliding_window": 9}).layers} == {9}
    assert {layer.window for layer in moe({**SMALL, "sliding_window": 9}).layers} == {None}
    assert {layer.window for layer in moe({**SMALL, "sliding_window": 9, "use_sliding_window": True}).layers} == {9}
    assert [layer.window for layer in oss(SMALL).layers] == [128, None] * 3 + [128]


def test_missing_keys_and_odd_layers_are_named():
    with pytest.raises(UnsupportedModelError, match="num_attention_heads"):
        adapter_for({"architectures": ["LlamaForCausalLM"]}).geometry({})
    data = {**SMALL, "layer_types": ["linear_attention"] * 7}
    with pytest.raises(UnsupportedModelError, match="linear_attention"):
        ADAPTERS["Qwen3ForCausalLM"].geometry(data)
    with pytest.raises(UnsupportedModelError, match="softcapping"):
        ADAPTERS["Gemma3ForCausalLM"].geometry({**SMALL, "attn_logit_softcapping": 50.0})
