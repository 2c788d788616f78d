"""The two models: their configurations, and directories that Transformers and SGLang load."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import NemotronHConfig, PreTrainedTokenizerFast
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig

from experiments.tiny_hybrid.modules import Hybrid
from experiments.tiny_hybrid.tokenizer import VOCAB_SIZE, save_tokenizer

ARCHITECTURES = ("qwen3_5", "nemotron_h")
END_TOKEN, PAD_TOKEN = 2, 0
_COMMON = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 4096,
    "bos_token_id": None,
    "eos_token_id": END_TOKEN,
    "pad_token_id": PAD_TOKEN,
    "dtype": "bfloat16",
}
_QWEN3_5 = {
    **_COMMON,
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "num_hidden_layers": 12,
    "full_attention_interval": 3,
    "layer_types": ["linear_attention", "linear_attention", "full_attention"] * 4,
    "intermediate_size": 256,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "linear_conv_kernel_dim": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "partial_rotary_factor": 0.25,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    "attention_bias": False,
    "tie_word_embeddings": True,
}
# The layers stand in `hybrid_override_pattern` alone: Transformers and SGLang name the kinds of `layers_block_type`
# differently. SGLang reads the groups under `mamba_n_groups` and under `n_groups`, Transformers takes either.
# Transformers lets no step in a prompt be under `time_step_min`, but none of its decoding and nothing in SGLang does.
_NEMOTRON_H = {
    **_COMMON,
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "hybrid_override_pattern": "M-M*-" * 4,
    "num_hidden_layers": 20,
    "intermediate_size": 384,
    "mlp_hidden_act": "relu2",
    "mlp_bias": False,
    "attention_bias": False,
    "use_bias": False,
    "layer_norm_epsilon": 1e-5,
    "residual_in_fp32": False,
    "mamba_num_heads": 4,
    "mamba_head_dim": 64,
    "ssm_state_size": 64,
    "n_groups": 2,
    "mamba_n_groups": 2,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "mamba_hidden_act": "silu",
    "mamba_proj_bias": False,
    "expand": 1,
    "chunk_size": 128,
    "time_step_min": 1e-6,
    "time_step_max": 0.1,
    "tie_word_embeddings": False,
}


def raw_config(arch: str, *, tiny: bool = False) -> dict[str, Any]:
    """What stands in config.json; `tiny` is a narrow one with the same kinds of layers, for tests.

    Raises `ValueError` on an unknown architecture.
    """
    if arch not in ARCHITECTURES:
        raise ValueError(f"{arch} is none of {', '.join(ARCHITECTURES)}")
    raw = dict(_QWEN3_5 if arch == "qwen3_5" else _NEMOTRON_H)
    if not tiny:
        return raw
    raw |= {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
    raw["head_dim"] = 32
    if arch == "qwen3_5":
        sizes = {"linear_num_key_heads": 1, "linear_num_value_heads": 2}
        sizes |= {"linear_key_head_dim": 16, "linear_value_head_dim": 16}
        return raw | sizes | {"num_hidden_layers": 3, "layer_types": raw["layer_types"][:3]}
    sizes = {"mamba_num_heads": 2, "mamba_head_dim": 16, "ssm_state_size": 16}
    return raw | sizes | {"hybrid_override_pattern": "M-M*-", "num_hidden_layers": 5}


def config_of(raw: dict[str, Any]) -> Any:
    """The Transformers configuration."""
    kept = {key: value for key, value in raw.items() if key != "model_type"}
    if raw["model_type"] == "nemotron_h":
        return NemotronHConfig(**kept)
    return Qwen3_5TextConfig(**kept)


def save(model: Hybrid, raw: dict[str, Any], tokenizer: PreTrainedTokenizerFast, directory: Path) -> None:
    """Write a directory: weights in bf16, configuration, tokenizer."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = {name: weight.to("cpu", torch.bfloat16).contiguous() for name, weight in model.named_weights().items()}
    if raw["model_type"] == "nemotron_h":
        # The published checkpoints' prefix, which both engines know.
        weights = {name.replace("model.", "backbone.", 1): weight for name, weight in weights.items()}
    draft = directory / "model.safetensors.part"
    save_file(weights, draft, metadata={"format": "pt"})
    draft.chmod(0o644)
    draft.rename(directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(raw, indent=2) + "\n")
    generation = {"eos_token_id": END_TOKEN, "pad_token_id": PAD_TOKEN}
    (directory / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    save_tokenizer(tokenizer, directory)
