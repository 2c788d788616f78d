"""Tiny random checkpoints of every served family, and V14 directories of them: seconds instead of gigabytes.

The weights are random but the arithmetic is the real model's, which is all that a law of exactness needs. Shapes are
ones that SGLang accepts too, so both engines can be held against each other on the same directory. Built once from a
fixed seed and kept in `.cache/tiny`, under a name that changes with this file.
"""

import hashlib
import json
import os
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from v14.config import CONFIG_KEY, Options
from v14.events.turns import TurnFormat
from v14.geometry import Geometry
from v14.models import adapter_for
from v14.profile import Profile
from v14.recall.voters import Voters
from v14.types import Cue
from v14.upgrade.directory import v14_config, write_code

PLAIN = ("llama", "qwen2", "qwen3", "gemma3", "mistral", "qwen3_moe", "gpt_oss")
"""Attention only."""

HYBRIDS = (
    "qwen3_5",
    "qwen3_5_vl",
    "qwen3_5_moe",
    "qwen3_5_moe_vl",
    "nemotron_h",
    "nemotron_h_omni",
    "lfm2",
    "lfm2_moe",
)
"""Attention among recurrent layers; `_vl` and `_omni` are the forms that take pictures."""

FAMILIES = (*PLAIN, *HYBRIDS)
"""Families whose events can be placed."""

REREAD_ONLY = ("qwen4_exp", "qwen4_exp_vl")
"""Families whose events can only be read again (`Geometry.placeable`)."""

EVERY_FAMILY = (*FAMILIES, *REREAD_ONLY)
ROLES = ("system", "user", "assistant")
VOCAB_SIZE = 1024
WINDOW = 64
"""Keys that a query of a sliding layer sees, itself included (Gemma 3, Mistral, GPT-OSS)."""

OPEN_OPTIONS: dict[str, Any] = {
    "write_generated": True,
    "recall_floor": -1e9,
    "recall_ratio": 0.0,
    "recall_max_events": 64,
    "recall_budget_tokens": 4096,
}
"""Options under which everything is stored, and everything in the namespace recalled."""

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_SEEN = {
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
}
"""Tokens that stand around and for a picture, by the configuration's name of each (the Qwen forms)."""
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_ROOT = Path(__file__).resolve().parent.parent


def tiny_checkpoint(family: str) -> Path:
    """A plain Transformers checkpoint of `family`: fp32 safetensors, tokenizer, ChatML-like template. Read-only."""
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    place = _ROOT / ".cache" / "tiny" / f"{family}-{digest}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as draft:
            _build(family, Path(draft) / "checkpoint")
            try:
                os.rename(Path(draft) / "checkpoint", place)
            except OSError:
                if not place.exists():
                    raise
    return place


def tiny_v14(family: str, path: Path, **options: Any) -> Path:
    """A V14 directory at `path` of the tiny checkpoint, its voters arbitrary; `options` override `OPEN_OPTIONS`."""
    return v14_of(tiny_checkpoint(family), path, **options)


def v14_of(source: Path, path: Path, **options: Any) -> Path:
    """A V14 directory at `path` of any checkpoint with the tokenizer of `write_checkpoint`, as `tiny_v14`."""
    path.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.name != "config.json":
            shutil.copyfile(file, path / file.name)
    profile = profile_of(source, **options)
    profile.save(path)
    config = json.loads((source / "config.json").read_text())
    adapter = adapter_for(config)
    write_code(path, adapter)
    data = {**v14_config(config, adapter), CONFIG_KEY: profile.options.model_dump(mode="json")}
    (path / "config.json").write_text(json.dumps(data, indent=2) + "\n")
    return path


def tiny_options(**options: Any) -> Options:
    """`OPEN_OPTIONS`, some of them replaced."""
    return Options.model_validate({**OPEN_OPTIONS, **options})


def tiny_profile(family: str, **options: Any) -> Profile:
    """The profile of the tiny checkpoint, with four arbitrary voters and a random null cue."""
    return profile_of(tiny_checkpoint(family), **options)


def profile_of(source: Path, **options: Any) -> Profile:
    """The profile of a checkpoint of at least four heads, as `tiny_profile`."""
    geometry = geometry_of(source)
    generator = torch.Generator().manual_seed(14)
    last = len(geometry.layers) - 1
    heads = tuple((geometry.layers[min(slot, last)].index, head) for slot, head in ((0, 0), (0, 3), (1, 1), (2, 2)))
    if not geometry.placeable:
        options = {"reinstate": "reread", **options}
    return Profile(
        base_architecture=json.loads((source / "config.json").read_text())["architectures"][0],
        weights_id="sha256:" + hashlib.sha256((source / "model.safetensors").read_bytes()).hexdigest(),
        geometry=geometry,
        turns=turns_of(source),
        sentence_ends=frozenset(tokenizer_of(source).convert_tokens_to_ids(["."])),
        voters=Voters(
            heads=heads,
            weights=(1.0,) * len(heads),
            calibration="subtract",
            null=Cue(
                queries=torch.randn(len(heads), 8, geometry.head_dim, generator=generator),
                context_lse=torch.full((len(heads), 8), 2.0),
            ),
            sinks=_sinks(source, heads),
        ),
        options=tiny_options(**options),
        measured={},
    )


def _sinks(source: Path, heads: tuple[tuple[int, int], ...]) -> tuple[float, ...]:
    weights = load_file(source / "model.safetensors")
    found = [weights.get(f"model.layers.{layer}.self_attn.sinks") for layer, _ in heads]
    return tuple(float(sinks[head]) for sinks, (_, head) in zip(found, heads, strict=True) if sinks is not None)


@cache
def tokenizer_of(directory: Path) -> Any:
    """The tokenizer of a checkpoint."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(directory)


@cache
def geometry_of(directory: Path) -> Geometry:
    """The geometry of a checkpoint, from the adapter of its architecture."""
    config = json.loads((directory / "config.json").read_text())
    return adapter_for(config).geometry(config)


def turns_of(directory: Path) -> TurnFormat:
    """The turn format of the template above."""

    def encode(text: str) -> tuple[int, ...]:
        return tuple(tokenizer_of(directory).encode(text, add_special_tokens=False))

    return TurnFormat(
        openings={role: encode(f"<|im_start|>{role}\n") for role in ROLES}, closing=encode("<|im_end|>\n")
    )


def chat_ids(directory: Path, messages: list[tuple[str, str]], *, reply: bool = True) -> list[int]:
    """Token ids of a chat of (role, content), with the opening of a reply when `reply`."""
    chat = [{"role": role, "content": content} for role, content in messages]
    encoded = tokenizer_of(directory).apply_chat_template(chat, add_generation_prompt=reply, return_dict=True)
    return list(encoded["input_ids"])


def _build(family: str, path: Path) -> None:
    torch.manual_seed(14)
    write_checkpoint(_model(family).float().eval(), path)


def write_checkpoint(model: Any, path: Path) -> None:
    """Save a model of random weights, some of them drawn anew, with the tokenizer and template above."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("A_log"):
                # Initialised values forget within a token or two, which would hide what is wrong with an old state.
                parameter.uniform_(0.05, 1.0).log_()
            elif name.endswith("dt_bias"):
                parameter.uniform_(-3.0, -1.0)
            elif parameter.dim() == 1:
                # Norms and biases start as ones and zeros: a mistake in them would not show.
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(path)
    _write_released_names(path / "model.safetensors")
    write_around(model.config, path)


def _write_released_names(file: Path) -> None:
    """Transformers 5.12 saves Nemotron-H's embeddings under a name that no released checkpoint has."""
    weights = load_file(file)
    misnamed = weights.pop("backbone.embedding.weight", None)
    if misnamed is not None:
        save_file({**weights, "backbone.embeddings.weight": misnamed}, file, {"format": "pt"})


def write_around(config: Any, path: Path) -> None:
    """Save what a checkpoint has beside its weights: configuration, tokenizer and template."""
    tokenizer = _tokenizer()
    if hasattr(config, "vision_start_token_id"):
        tokenizer.add_special_tokens({"additional_special_tokens": list(_SEEN.values())})
        for name, token in _SEEN.items():
            setattr(config, name, tokenizer.convert_tokens_to_ids(token))
        _write_processors(config.vision_config, path)
    tokenizer.save_pretrained(path)
    config.save_pretrained(path)
    _write_what_released_configs_have(path / "config.json")


def _write_processors(eyes: Any, path: Path) -> None:
    """What turns pictures and videos into patches: SGLang does not start such a form without."""
    patches = {name: getattr(eyes, name) for name in ("patch_size", "temporal_patch_size")}
    patches |= {"merge_size": eyes.spatial_merge_size, "processor_class": "Qwen3VLProcessor"}
    for file, kind, name in (
        ("preprocessor_config.json", "image_processor_type", "Qwen2VLImageProcessor"),
        ("video_preprocessor_config.json", "video_processor_type", "Qwen3VLVideoProcessor"),
    ):
        (path / file).write_text(json.dumps({**patches, kind: name}, indent=2) + "\n")


def _write_what_released_configs_have(file: Path) -> None:
    """Keys that SGLang reads and Transformers 5 writes under another name, or not at all."""
    config = json.loads(file.read_text())
    text = config.get("text_config", config)
    kinds = text.get("layer_types", [])
    if "linear_attention" in kinds:
        text["full_attention_interval"] = 1 + min(i for i, kind in enumerate(kinds) if kind != "linear_attention")
    if "layers_block_type" in text:
        letters = {
            "linear_attention": "M",
            "full_attention": "*",
            "mamba": "M",
            "attention": "*",
            "mlp": "-",
            "moe": "E",
        }
        text["hybrid_override_pattern"] = "".join(letters[kind] for kind in text.pop("layers_block_type"))
        text["num_hidden_layers"] = len(text["hybrid_override_pattern"])
        text["mamba_n_groups"] = text["n_groups"]
    file.write_text(json.dumps(config, indent=2) + "\n")


SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "initializer_range": 0.1,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": 2,
}
EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
DELTA_NET: dict[str, Any] = {
    **SHAPE,
    "num_hidden_layers": 6,
    "layer_types": ["linear_attention", "linear_attention", "full_attention"] * 2,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 64,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "partial_rotary_factor": 0.25,
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
    },
}
MAMBA: dict[str, Any] = {
    **SHAPE,
    "head_dim": 32,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "n_groups": 2,
    "ssm_state_size": 32,
    "chunk_size": 64,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "moe_shared_expert_intermediate_size": 64,
}
CONV: dict[str, Any] = {
    **SHAPE,
    "num_hidden_layers": 6,
    "layer_types": ["conv", "conv", "full_attention"] * 2,
    "tie_word_embeddings": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
}
EYES: dict[str, Any] = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 2,
    "out_hidden_size": 64,
    "num_position_embeddings": 16,
    "patch_size": 4,
}
SPARSE: dict[str, Any] = {
    "hc_count": 2,
    "hc_lowrank": 16,
    "ple_layer_ids": [2],
    "heads_per_ngram": 2,
    "ngram_vocab_size_base": 101,
    "make_ngram_vocab_size_divisible_by": 8,
    "split_ngram_parts": 2,
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 32,
    "indexer_budget": 32,
    "indexer_compress_ratio": 8,
}


def _model(family: str) -> Any:
    """The model, its weights random. Hybrids have at least two attention and four recurrent layers."""
    import transformers as hf

    sliding, full = "sliding_attention", "full_attention"
    if family == "llama":
        return hf.LlamaForCausalLM(hf.LlamaConfig(**SHAPE, head_dim=16))
    if family == "qwen2":
        return hf.Qwen2ForCausalLM(hf.Qwen2Config(**SHAPE))
    if family == "qwen3":
        return hf.Qwen3ForCausalLM(hf.Qwen3Config(**SHAPE, head_dim=32))
    if family == "gemma3":
        gemma = {
            "num_hidden_layers": 4,
            "tie_word_embeddings": True,
            "head_dim": 32,
            "query_pre_attn_scalar": 32,
            "sliding_window": WINDOW,
            "layer_types": [sliding, full, sliding, full],
        }
        return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**{**SHAPE, **gemma}))
    if family == "mistral":
        return hf.MistralForCausalLM(hf.MistralConfig(**SHAPE, head_dim=32, sliding_window=WINDOW))
    if family == "qwen3_moe":
        return hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**SHAPE, **EXPERTS, head_dim=32))
    if family == "gpt_oss":
        oss = {
            "num_hidden_layers": 4,
            "head_dim": 64,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": WINDOW,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 150_000.0,
                "factor": 4.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 1024,
            },
        }
        return hf.GptOssForCausalLM(hf.GptOssConfig(**{**SHAPE, **oss}))
    if family == "qwen3_5":
        return hf.Qwen3_5ForCausalLM(hf.Qwen3_5TextConfig(**DELTA_NET))
    if family == "qwen3_5_vl":
        return hf.Qwen3_5ForConditionalGeneration(hf.Qwen3_5Config(text_config=DELTA_NET, vision_config=EYES))
    experts = {**DELTA_NET, **EXPERTS, "shared_expert_intermediate_size": 64}
    if family == "qwen3_5_moe":
        return hf.Qwen3_5MoeForCausalLM(hf.Qwen3_5MoeTextConfig(**experts))
    if family == "qwen3_5_moe_vl":
        config = hf.Qwen3_5MoeConfig(text_config=experts, vision_config=EYES)
        return hf.Qwen3_5MoeForConditionalGeneration(config)
    if family == "nemotron_h":
        return hf.NemotronHForCausalLM(hf.NemotronHConfig(**MAMBA, hybrid_override_pattern="M-M*MM-*"))
    if family == "nemotron_h_omni":
        text = {**MAMBA, "hybrid_override_pattern": "MEM*MM*-"}
        eyes = {
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 32,
            "max_img_size": 64,
        }
        config = hf.NemotronH_Omni_Reasoning_V3_Config(
            text_config=text,
            vision_config={**eyes, "video_temporal_patch_size": 2},
            vision_hidden_size=32,
            projector_hidden_size=64,
        )
        return hf.NemotronH_Omni_Reasoning_V3(config)
    if family == "lfm2":
        return hf.Lfm2ForCausalLM(hf.Lfm2Config(**CONV, block_auto_adjust_ff_dim=False))
    if family == "lfm2_moe":
        return hf.Lfm2MoeForCausalLM(hf.Lfm2MoeConfig(**CONV, **EXPERTS))
    if family == "qwen4_exp":
        return hf.Qwen4ExpForCausalLM(hf.Qwen4ExpTextConfig(**experts, **SPARSE))
    if family == "qwen4_exp_vl":
        config = hf.Qwen4ExpConfig(text_config={**experts, **SPARSE}, vision_config=EYES)
        return hf.Qwen4ExpForConditionalGeneration(config)
    raise ValueError(f"no tiny checkpoint of family {family!r}; there are {', '.join(EVERY_FAMILY)}")


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=list(_SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=_SPECIAL[0],
        pad_token=_SPECIAL[0],
        eos_token=_SPECIAL[2],
        chat_template=_TEMPLATE,
    )


def _corpus() -> list[str]:
    words = _WORDS.split()
    rng = random.Random(14)
    return [" ".join(rng.choice(words) for _ in range(rng.randint(4, 14))).capitalize() + "." for _ in range(400)]


_WORDS = (
    "the a my our your is was are in on of to and with for blue red old new house river garden train letter music "
    "friend teacher doctor city morning evening winter summer coffee window paper story number question answer "
    "system user assistant remember find open close read write walk think place colour name time day year"
)
