"""LFM2: full attention among gated short convolutions, which keep a few inputs and no state."""

from collections.abc import Mapping
from typing import Any

from v14.geometry import Geometry, RecurrentStack
from v14.models.base import CONV, FULL, Adapter, assemble, heads, indices_of, layer_types, required
from v14.models.rope import rope_parameters, rotary


class Lfm2(Adapter):
    """`Lfm2ForCausalLM` and, with experts, `Lfm2MoeForCausalLM`."""

    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """See `Adapter.geometry`."""
        shape = heads(config)
        turn = rotary(rope_parameters(config, default_theta=1_000_000.0), shape.head_dim)
        layers = range(int(required(config, "num_hidden_layers")))
        attention = layers if config.get("full_attn_idxs") is None else config["full_attn_idxs"]
        default = [FULL if index in attention else CONV for index in layers]
        kinds = layer_types(config, default=default, known=(FULL, CONV))
        recurrent = RecurrentStack(
            kind="conv",
            indices=indices_of(CONV, kinds),
            conv_channels=int(required(config, "hidden_size")),
            conv_width=int(config.get("conv_L_cache", 3)),
        )
        return assemble(shape, kinds, {FULL: turn}, None, shape.head_dim**-0.5, recurrent)


FAMILY = (
    Lfm2(architecture="Lfm2ForCausalLM", config_class="Lfm2Config"),
    Lfm2(architecture="Lfm2MoeForCausalLM", config_class="Lfm2MoeConfig"),
)
