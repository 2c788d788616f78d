"""Qwen3.5, dense and with experts: three Gated DeltaNet layers to one of gated attention.

The attention's output gate multiplies what a head has read and does not change where it looks. A quarter of each head
turns; the three axes of M-RoPE are one for text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from v14.geometry import Geometry, RecurrentStack
from v14.models.base import (
    FULL,
    LINEAR,
    Adapter,
    assemble,
    every,
    heads,
    indices_of,
    layer_types,
    required,
    text_config,
)
from v14.models.rope import rope_parameters, rotary


@dataclass(frozen=True, kw_only=True)
class Qwen35(Adapter):
    """`Qwen3_5…ForCausalLM` and `…ForConditionalGeneration`; `turning` is the share of a head that turns by default."""

    turning: float = 0.25

    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """See `Adapter.geometry`."""
        config = text_config(config)
        shape = heads(config, head_dim=256)
        parameters = rope_parameters(config, default_theta=10_000.0)
        parameters.setdefault("partial_rotary_factor", self.turning)
        kinds = self.kinds(config)
        turn = rotary(parameters, shape.head_dim)
        return assemble(shape, kinds, {FULL: turn}, None, shape.head_dim**-0.5, _delta_net(config, kinds))

    def kinds(self, config: Mapping[str, Any]) -> Sequence[str]:
        """The kind of each layer."""
        interval = int(config.get("full_attention_interval") or 4)
        default = every(interval, int(required(config, "num_hidden_layers")), this=FULL, others=LINEAR)
        return layer_types(config, default=default, known=(FULL, LINEAR))


def _delta_net(config: Mapping[str, Any], kinds: Sequence[str]) -> RecurrentStack:
    """The Gated DeltaNet layers; queries, keys and values share one convolution."""
    num_key_heads, key_dim = int(config.get("linear_num_key_heads", 16)), int(config.get("linear_key_head_dim", 128))
    num_heads, value_dim = int(config.get("linear_num_value_heads", 32)), int(config.get("linear_value_head_dim", 128))
    return RecurrentStack(
        kind="gated_delta",
        indices=indices_of(LINEAR, kinds),
        num_heads=num_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        conv_channels=2 * num_key_heads * key_dim + num_heads * value_dim,
        conv_width=int(config.get("linear_conv_kernel_dim", 4)),
    )


FAMILY = (
    Qwen35(architecture="Qwen3_5ForConditionalGeneration", config_class="Qwen3_5Config"),
    Qwen35(architecture="Qwen3_5ForCausalLM", config_class="Qwen3_5TextConfig"),
    Qwen35(architecture="Qwen3_5MoeForConditionalGeneration", config_class="Qwen3_5MoeConfig"),
    Qwen35(architecture="Qwen3_5MoeForCausalLM", config_class="Qwen3_5MoeTextConfig"),
)
