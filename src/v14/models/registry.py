"""From a `config.json` to its adapter, by architecture name."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from v14.errors import UnsupportedModelError
from v14.models.base import WITHOUT, Adapter

FAMILIES = (
    "gemma3",
    "gpt_oss",
    "lfm2",
    "llama",
    "mistral",
    "nemotron_h",
    "qwen2",
    "qwen3",
    "qwen3_5",
    "qwen4_exp",
)
"""Modules of this package, each with the adapters of one family as `FAMILY`."""

ADAPTERS: Mapping[str, Adapter] = {
    adapter.architecture: adapter for name in FAMILIES for adapter in import_module(f"v14.models.{name}").FAMILY
}

NOT_SERVED: Mapping[str, str] = {
    "Gemma3ForConditionalGeneration": "only the text-only Gemma3ForCausalLM is",
    "Lfm3ForCausalLM": "neither Transformers nor SGLang has the model; LFM2 is supported",
    "NemotronH_Nano_Omni_Reasoning_V3": "Transformers has this model as NemotronH_Omni_Reasoning_V3",
}
"""Names that are asked for and refused, with the reason."""


def adapter_for(config: Mapping[str, Any]) -> Adapter:
    """The adapter of a raw `config.json`. Raises `UnsupportedModelError` naming the architecture."""
    names = config.get("architectures") or []
    known = ", ".join(ADAPTERS)
    if not names:
        raise UnsupportedModelError(f"config.json names no architecture; give a checkpoint of one of {known}")
    if names[0] in NOT_SERVED:
        raise UnsupportedModelError(f"architecture {names[0]} is not supported: {NOT_SERVED[names[0]]}{WITHOUT}")
    if names[0] not in ADAPTERS:
        raise UnsupportedModelError(
            f"architecture {names[0]} is not supported; supported are {known}. "
            "docs/adding_an_architecture.md says how to add one"
        )
    return ADAPTERS[names[0]]


def base_architecture(v14_name: str) -> str:
    """The native architecture behind a V14 name; other names come back as they are."""
    return _NATIVE.get(v14_name, v14_name)


_NATIVE = {adapter.v14_name: adapter.architecture for adapter in ADAPTERS.values()}
