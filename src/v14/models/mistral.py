"""Mistral: Llama's layers, in early checkpoints with one sliding window for all of them."""

from collections.abc import Mapping
from typing import Any

from v14.geometry import Geometry
from v14.models.base import FULL, SLIDING, Adapter, assemble, heads, required
from v14.models.rope import rope_parameters, rotary


class Mistral(Adapter):
    """`MistralForCausalLM`."""

    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """See `Adapter.geometry`."""
        shape = heads(config)
        turn = rotary(rope_parameters(config, default_theta=10_000.0), shape.head_dim)
        # The class's own default is 4096; checkpoints without a window write null.
        window = config.get("sliding_window", 4096)
        kinds = [SLIDING if window else FULL] * int(required(config, "num_hidden_layers"))
        return assemble(shape, kinds, {FULL: turn, SLIDING: turn}, window, shape.head_dim**-0.5)


FAMILY = (Mistral(architecture="MistralForCausalLM", config_class="MistralConfig"),)
