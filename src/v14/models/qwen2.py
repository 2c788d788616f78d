"""Qwen2 and Qwen2.5: full attention, and optionally a sliding window in the upper layers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from v14.geometry import Geometry
from v14.models.base import FULL, SLIDING, Adapter, assemble, heads, layer_types, required
from v14.models.rope import rope_parameters, rotary


@dataclass(frozen=True, kw_only=True)
class Qwen2(Adapter):
    """`Qwen2ForCausalLM`.

    `head_dim` is the head dimension where the config names none; None: hidden size by heads.
    """

    head_dim: int | None = None

    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """See `Adapter.geometry`."""
        shape = heads(config, head_dim=self.head_dim)
        window = config.get("sliding_window", 4096) if config.get("use_sliding_window") else None
        num_layers = int(required(config, "num_hidden_layers"))
        first_sliding = int(config.get("max_window_layers", 28)) if window else num_layers
        default = [SLIDING if i >= first_sliding else FULL for i in range(num_layers)]
        turn = rotary(rope_parameters(config, default_theta=10_000.0), shape.head_dim)
        kinds = layer_types(config, default=default)
        return assemble(shape, kinds, {FULL: turn, SLIDING: turn}, window, shape.head_dim**-0.5)


FAMILY = (Qwen2(architecture="Qwen2ForCausalLM", config_class="Qwen2Config"),)
