"""Random bf16 checkpoints in shapes that GPU kernels accept, and the V14 directories of them.

Small enough to be made where they are needed, in seconds; heads and states have the sizes of the released models
(heads of 64 to 256, Gated DeltaNet states 128 by 128, Mamba2 states 64 by 128). Qwen3.5 comes in the form that takes
pictures, the only one that SGLang 0.5.17 has.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.tiny import EXPERTS, EYES, SHAPE, v14_of, write_around, write_checkpoint
from v14.geometry import Geometry
from v14.profile import Profile
from v14.recall.voters import Voters
from v14.types import Cue
from v14.upgrade.measure import LAYER_SHARE

FAMILIES = ("llama", "qwen3_5", "qwen3_5_moe", "nemotron_h", "gpt_oss", "lfm2")

_WIDE: dict[str, Any] = {
    **SHAPE,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "initializer_range": 0.05,
    "max_position_embeddings": 32768,
}
_EXPERTS: dict[str, Any] = {**EXPERTS, "num_experts": 4, "num_experts_per_tok": 4, "moe_intermediate_size": 128}
"""Every token goes to all experts, weighted: a random router is indifferent, and rounding would choose for it."""
_DELTA_NET: dict[str, Any] = {
    **_WIDE,
    "num_hidden_layers": 6,
    "layer_types": ["linear_attention", "linear_attention", "full_attention"] * 2,
    "head_dim": 256,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10_000_000.0,
        "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10],
        "mrope_interleaved": True,
    },
}
_MAMBA: dict[str, Any] = {
    **_WIDE,
    "head_dim": 128,
    "mamba_num_heads": 8,
    "mamba_head_dim": 64,
    "n_groups": 2,
    "ssm_state_size": 128,
    "chunk_size": 128,
    "hybrid_override_pattern": "M-M*MM-*",
}
_SINKS: dict[str, Any] = {
    **_WIDE,
    "num_hidden_layers": 4,
    "head_dim": 64,
    "num_local_experts": 4,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "initial_context_length": 4096,
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 150_000.0,
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    },
}
_CONV: dict[str, Any] = {
    **_WIDE,
    "num_hidden_layers": 6,
    "layer_types": ["conv", "conv", "full_attention"] * 2,
    "num_attention_heads": 4,
    "tie_word_embeddings": True,
    "block_auto_adjust_ff_dim": False,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
}
_EYES: dict[str, Any] = {
    **EYES,
    "hidden_size": 128,
    "intermediate_size": 256,
    "out_hidden_size": 256,
    "deepstack_visual_indexes": [],
}

_PROCESSOR: dict[str, dict[str, Any]] = {
    "preprocessor_config.json": {
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "processor_class": "Qwen3VLProcessor",
    },
    "video_preprocessor_config.json": {
        "video_processor_type": "Qwen3VLVideoProcessor",
        "processor_class": "Qwen3VLProcessor",
    },
}
"""What SGLang asks of a model that takes pictures before it reads any text."""


_27B: dict[str, Any] = {
    **_DELTA_NET,
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 16,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "vocab_size": 248320,
    "max_position_embeddings": 262144,
}
SHAPES: dict[str, dict[str, Any]] = {"qwen3_5_27b": _27B, "small": {**_DELTA_NET, "vocab_size": 1024}}
"""Qwen3.5 for `--load-format dummy`: the sizes of the 27B model, and some that a CPU serves."""


def dummy_v14_directory(shape: str, path: Path, *, draft_layers: int = 0, **options: Any) -> Path:
    """A V14 directory at `path` of a Qwen3.5 without weights, with so many layers of a draft model (MTP); `options`
    override those of open recall."""
    import transformers as hf

    source = path.with_name(f"{path.name}-plain")
    text = {**SHAPES[shape], "dtype": "bfloat16"}
    eyes = {**_EYES, "out_hidden_size": text["hidden_size"]}
    config = hf.Qwen3_5Config(text_config=text, vision_config=eyes, dtype="bfloat16")
    config.architectures = ["Qwen3_5ForConditionalGeneration"]
    config.text_config.mtp_num_hidden_layers = draft_layers
    source.mkdir(parents=True, exist_ok=True)
    write_around(config, source)
    _write_processor(source)
    save_file({"unused": torch.zeros(1)}, source / "model.safetensors")
    v14_of(source, path, **options)
    profile = Profile.load(path)
    replace(profile, voters=_spread_voters(profile.geometry)).save(path)
    return path


def _spread_voters(geometry: Geometry) -> Voters:
    """Two heads in each of the last eight attention layers that an upgrade may choose from, as small models have them:
    where voters sit decides how early a pass can stop."""
    depth = 1 + max(layer.index for layer in geometry.layers)
    allowed = [layer.index for layer in geometry.layers if layer.index < LAYER_SHARE * depth]
    heads = tuple((layer, head) for layer in allowed[-8:] for head in (0, geometry.num_heads - 1))
    generator = torch.Generator().manual_seed(14)
    null = Cue(
        queries=torch.randn(len(heads), 8, geometry.head_dim, generator=generator),
        context_lse=torch.full((len(heads), 8), 2.0),
    )
    weights = (1.0,) * len(heads)
    return Voters(heads=heads, weights=weights, calibration="subtract", null=null)


def checkpoint(family: str, path: Path) -> Path:
    """A plain checkpoint of `family` at `path`, the same weights every time."""
    torch.manual_seed(14)
    model = _model(family).eval()
    write_checkpoint(model, path)
    if hasattr(model.config, "vision_config"):
        _write_processor(path)
    return path


def _write_processor(path: Path) -> None:
    for name, content in _PROCESSOR.items():
        (path / name).write_text(json.dumps(content, indent=2) + "\n")


def v14_directory(family: str, path: Path, **options: Any) -> Path:
    """A V14 directory at `path`, beside which the plain checkpoint stays; `options` override those of open recall."""
    return v14_of(checkpoint(family, path.with_name(f"{path.name}-plain")), path, **options)


def _model(family: str) -> Any:
    import transformers as hf

    dtype = {"dtype": "bfloat16"}
    if family == "llama":
        return hf.LlamaForCausalLM(hf.LlamaConfig(**_WIDE, **dtype, head_dim=128)).bfloat16()
    if family == "qwen3_5":
        text = {**_DELTA_NET, **dtype}
        config = hf.Qwen3_5Config(text_config=text, vision_config=_EYES, **dtype)
        return hf.Qwen3_5ForConditionalGeneration(config).bfloat16()
    if family == "qwen3_5_moe":
        text = {**_DELTA_NET, **_EXPERTS, **dtype, "shared_expert_intermediate_size": 128}
        config = hf.Qwen3_5MoeConfig(text_config=text, vision_config=_EYES, **dtype)
        return hf.Qwen3_5MoeForConditionalGeneration(config).bfloat16()
    if family == "nemotron_h":
        return hf.NemotronHForCausalLM(hf.NemotronHConfig(**_MAMBA, **dtype)).bfloat16()
    if family == "gpt_oss":
        return hf.GptOssForCausalLM(hf.GptOssConfig(**_SINKS, **dtype)).bfloat16()
    if family == "lfm2":
        return hf.Lfm2ForCausalLM(hf.Lfm2Config(**_CONV, **dtype)).bfloat16()
    raise ValueError(f"no checkpoint of family {family!r}; there are {', '.join(FAMILIES)}")
