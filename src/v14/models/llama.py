"""Llama: full attention in every layer, one rotary embedding."""

from collections.abc import Mapping
from typing import Any

from v14.geometry import Geometry
from v14.models.base import FULL, Adapter, assemble, heads, required
from v14.models.rope import rope_parameters, rotary


class Llama(Adapter):
    """`LlamaForCausalLM`, and what was saved in its form (SmolLM2 among others)."""

    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """See `Adapter.geometry`."""
        shape = heads(config)
        turn = rotary(rope_parameters(config, default_theta=10_000.0), shape.head_dim)
        kinds = [FULL] * int(required(config, "num_hidden_layers"))
        return assemble(shape, kinds, {FULL: turn}, None, shape.head_dim**-0.5)


FAMILY = (Llama(architecture="LlamaForCausalLM", config_class="LlamaConfig"),)
