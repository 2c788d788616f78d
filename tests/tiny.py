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

from v14.config import CONFIG_KEY, Options
from v14.events.turns import TurnFormat
from v14.geometry import Geometry
from v14.models import adapter_for
from v14.profile import Profile
from v14.recall.voters import Voters
from v14.types import Cue

FAMILIES = ("llama", "qwen2", "qwen3", "gemma3")
ROLES = ("system", "user", "assistant")
VOCAB_SIZE = 1024
WINDOW = 64
"""Keys that a query of a sliding layer of the tiny Gemma 3 sees, itself included."""

OPEN_OPTIONS: dict[str, Any] = {
    "write_generated": True,
    "recall_floor": -1e9,
    "recall_ratio": 0.0,
    "recall_max_events": 64,
    "recall_budget_tokens": 4096,
}
"""Options under which everything is stored, and everything in the namespace recalled."""

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
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
    source = tiny_checkpoint(family)
    path.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.name != "config.json":
            shutil.copyfile(file, path / file.name)
    tiny_profile(family, **options).save(path)
    config = json.loads((source / "config.json").read_text())
    [base] = config["architectures"]
    stem = base.removesuffix("ForCausalLM")
    config["architectures"] = [f"{stem}V14ForCausalLM"]
    config["auto_map"] = {
        "AutoConfig": f"configuration_v14.{stem}V14Config",
        "AutoModelForCausalLM": f"modeling_v14.{stem}V14ForCausalLM",
    }
    config[CONFIG_KEY] = tiny_options(**options).model_dump(mode="json")
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    config_class = config_of(source).__class__.__name__
    (path / "configuration_v14.py").write_text(
        f"from transformers import {config_class}\n\n\nclass {stem}V14Config({config_class}):\n    pass\n"
    )
    (path / "modeling_v14.py").write_text(
        f"from transformers import {base}\n\nfrom v14.engines.transformers import with_memory\n\n"
        f"from .configuration_v14 import {stem}V14Config\n\n"
        f"{stem}V14ForCausalLM = with_memory({base}, {stem}V14Config)\n"
    )
    return path


def tiny_options(**options: Any) -> Options:
    """`OPEN_OPTIONS`, some of them replaced."""
    return Options.model_validate({**OPEN_OPTIONS, **options})


def tiny_profile(family: str, **options: Any) -> Profile:
    """The profile of the tiny checkpoint, with four arbitrary voters and a random null cue."""
    source = tiny_checkpoint(family)
    geometry = geometry_of(source)
    generator = torch.Generator().manual_seed(14)
    heads = ((0, 0), (0, 3), (1, 1), (2, 2))
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
        ),
        options=tiny_options(**options),
        measured={},
    )


def config_of(directory: Path) -> Any:
    """The Transformers configuration of a checkpoint."""
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(directory)


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
    _tokenizer().save_pretrained(path)
    torch.manual_seed(14)
    model = _model(family).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                # Norms and biases start as ones and zeros: a mistake in them would not show.
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(path)


def _model(family: str) -> Any:
    import transformers as hf

    shape: dict[str, Any] = {
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
    if family == "llama":
        return hf.LlamaForCausalLM(hf.LlamaConfig(**shape, head_dim=16))
    if family == "qwen2":
        return hf.Qwen2ForCausalLM(hf.Qwen2Config(**shape))
    if family == "qwen3":
        return hf.Qwen3ForCausalLM(hf.Qwen3Config(**shape, head_dim=32))
    if family == "gemma3":
        sliding, full = "sliding_attention", "full_attention"
        gemma = {
            "num_hidden_layers": 4,
            "tie_word_embeddings": True,
            "head_dim": 32,
            "query_pre_attn_scalar": 32,
            "sliding_window": WINDOW,
            "layer_types": [sliding, full, sliding, full],
        }
        return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**{**shape, **gemma}))
    raise ValueError(f"no tiny checkpoint of family {family!r}; there are {', '.join(FAMILIES)}")


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
