"""GPT-OSS: sliding and full attention in turn, YaRN, and a learned sink that takes part of every head's attention.

A sink is a score that belongs to the head and to no token. It stays where it is when an event moves, so the geometry
does not know it; votes do (`Voters.sinks`).
"""

from collections.abc import Mapping
from typing import Any

from v14.geometry import Geometry
from v14.models.base import FULL, SLIDING, Adapter, assemble, every, heads, layer_types, required
from v14.models.rope import rope_parameters, rotary

YARN = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
"""What a config that says nothing of its rotation means."""


class GptOss(Adapter):
    """`GptOssForCausalLM`."""

    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """See `Adapter.geometry`."""
        shape = heads(config, head_dim=64)
        told = config.get("rope_parameters") or config.get("rope_scaling") or YARN
        turn = rotary(rope_parameters({**config, "rope_parameters": told}, default_theta=150_000.0), shape.head_dim)
        num_layers = int(required(config, "num_hidden_layers"))
        kinds = layer_types(config, default=every(2, num_layers, this=FULL, others=SLIDING))
        window = config.get("sliding_window", 128)
        return assemble(shape, kinds, {FULL: turn, SLIDING: turn}, window, shape.head_dim**-0.5)


FAMILY = (GptOss(architecture="GptOssForCausalLM", config_class="GptOssConfig"),)
