"""From a `config.json` to its adapter, by architecture name."""

from collections.abc import Mapping
from typing import Any

from v14.errors import UnsupportedModelError
from v14.models.base import Adapter
from v14.models.gemma3 import Gemma3
from v14.models.llama import Llama
from v14.models.qwen2 import Qwen2
from v14.models.qwen3 import Qwen3

ADAPTERS: Mapping[str, Adapter] = {adapter.architecture: adapter for adapter in (Llama(), Qwen2(), Qwen3(), Gemma3())}


def adapter_for(config: Mapping[str, Any]) -> Adapter:
    """The adapter of a raw `config.json`. Raises `UnsupportedModelError` naming the architecture."""
    names = config.get("architectures") or []
    known = ", ".join(ADAPTERS)
    if not names:
        raise UnsupportedModelError(f"config.json names no architecture; supported are {known}")
    if names[0] == "Gemma3ForConditionalGeneration":
        raise UnsupportedModelError(
            "Gemma3ForConditionalGeneration (with pictures) is not supported, only the text-only Gemma3ForCausalLM"
        )
    if names[0] not in ADAPTERS:
        raise UnsupportedModelError(f"architecture {names[0]} is not supported; supported are {known}")
    return ADAPTERS[names[0]]
