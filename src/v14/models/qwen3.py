"""Qwen3: Qwen2's layers with norms on queries and keys, which the keys carry already when they are stored."""

from collections.abc import Mapping
from typing import Any

from v14.geometry import Geometry
from v14.models.qwen2 import Qwen2


class Qwen3Moe(Qwen2):
    """Experts change nothing here, but a window, where one is used, is that of all layers."""

    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """See `Adapter.geometry`."""
        return super().geometry({**config, "max_window_layers": 0, "layer_types": None})


FAMILY = (
    Qwen2(architecture="Qwen3ForCausalLM", config_class="Qwen3Config", head_dim=128),
    Qwen3Moe(architecture="Qwen3MoeForCausalLM", config_class="Qwen3MoeConfig"),
)
