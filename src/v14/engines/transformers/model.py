"""`with_memory`: a Transformers model class whose `generate` remembers."""

import logging
import weakref
from pathlib import Path
from typing import Any

import torch

from v14.config import Mode, Switches
from v14.engines.transformers import attention
from v14.engines.transformers.generate import NO_PICTURES, Decision, check_mode, generate_with_memory, unfit
from v14.engines.transformers.mixers import Mixer
from v14.engines.transformers.recording import watch
from v14.errors import UnsupportedModelError
from v14.memory import Memory
from v14.namespaces import DEFAULT_NAMESPACE
from v14.profile import Profile

logger = logging.getLogger("v14")


class MemoryGenerationMixin:
    """Stands in front of a `…ForCausalLM` or `…ForConditionalGeneration` class of Transformers (`with_memory` puts it
    there).

    `v14` is the open memory, or None: `SGLANG_V14_MEMORY=0`, or a model not made by `from_pretrained`.
    `v14_last` is what the memory decided for the last call of `generate`, None if the call ran without it.
    `v14_mixers` are the recurrent layers, in order.
    """

    v14: Memory | None = None
    v14_last: Decision | None = None
    v14_mixers: tuple[Mixer, ...] = ()

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        if Switches.read().memory:
            attention.register()
            config._attn_implementation = _wrapper(type(self), config._attn_implementation)
        super().__init__(config, *args, **kwargs)  # type: ignore[call-arg]
        self._v14_warned: set[str] = set()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """As the library's, from a V14 directory on this machine; opens the memory that belongs to its weights.

        Raises `DirectoryError` or `OptionError` when the directory or the environment cannot be used. A store that
        cannot be opened leaves the model working without memory.
        """
        switches = Switches.read()
        profile = Profile.load(Path(pretrained_model_name_or_path)) if switches.memory else None
        loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)  # type: ignore[misc]
        if profile is not None:
            model = loaded[0] if isinstance(loaded, tuple) else loaded
            model.v14_mixers = watch(model, profile.geometry)
            model.v14 = Memory.open(profile, switches)
            if profile.options.recall_while_decoding:
                logger.warning(
                    "recall_while_decoding is served by SGLang: here recall is decided before the first token"
                )
            weakref.finalize(model, model.v14.close)
        return loaded

    def set_attn_implementation(self, attn_implementation: Any, *args: Any, **kwargs: Any) -> None:
        """As the library's, but only for implementations that the memory can see into."""
        if self.v14 is not None:
            attn_implementation = _wrapper(type(self), attn_implementation)
        super().set_attn_implementation(attn_implementation, *args, **kwargs)  # type: ignore[misc]

    @torch.no_grad()
    def generate(
        self,
        inputs: torch.Tensor | None = None,
        generation_config: Any = None,
        *,
        v14_namespace: str = DEFAULT_NAMESPACE,
        v14_memory: Mode = "both",
        **kwargs: Any,
    ) -> Any:
        """As the library's, with memory.

        v14_namespace: whose memory; nothing crosses it. v14_memory: `both` recalls and stores, `read` only recalls,
        `write` only stores, `off` does neither. Calls that cannot have memory (batches, beams, embeddings, a cache of
        their own) run without it and say so once. A `past_key_values` that is returned holds the recalled span.
        """
        check_mode(v14_memory)
        self.v14_last = None
        plain = super().generate  # type: ignore[misc]
        if self.v14 is None or not self.v14.available or v14_memory == "off":
            return plain(inputs, generation_config, **kwargs)
        input_ids: Any = kwargs.get("input_ids") if inputs is None else inputs
        reason = unfit(self, input_ids, generation_config, kwargs)
        if reason is not None:
            self.v14.counters["without_memory"] += 1
            if reason not in self._v14_warned:
                self._v14_warned.add(reason)
                logger.warning("generating without memory: %s", reason)
            return plain(inputs, generation_config, **kwargs)
        for name in ("input_ids", *NO_PICTURES):
            kwargs.pop(name, None)
        output, self.v14_last = generate_with_memory(
            self, self.v14, plain, input_ids, generation_config, kwargs, v14_namespace, v14_memory
        )
        return output


def with_memory(base: type, config_class: type | None = None) -> type:
    """A subclass of `base` (`LlamaForCausalLM`, …) whose `generate` has the memory, named `LlamaV14ForCausalLM`, …

    A multimodal class (`…ForConditionalGeneration`) has memory for prompts of text alone.

    `config_class` is the configuration class it is registered with, by default that of `base`.
    """
    name = base.__name__.replace("For", "V14For", 1)
    body: dict[str, Any] = {"__doc__": f"{base.__name__} with memory.", "__module__": __name__}
    if config_class is not None:
        body["config_class"] = config_class
    return type(name, (MemoryGenerationMixin, base), body)


def _wrapper(model_class: type, requested: Any) -> str:
    """The attention implementation with memory. Raises `UnsupportedModelError` when another one was requested."""
    wrapped = attention.wrapped(model_class)
    wrapper = attention.WRAPPERS[wrapped]
    if requested not in (None, wrapped, wrapper):
        raise UnsupportedModelError(
            f"attn_implementation={requested!r} does not show the memory the queries it votes with; leave it out "
            f"or give {wrapped!r}, or set SGLANG_V14_MEMORY=0"
        )
    return wrapper
