"""Gemma 3, text: five sliding layers to one full one, each kind with its own rotary embedding."""

from collections.abc import Mapping
from typing import Any

from v14.errors import UnsupportedModelError
from v14.geometry import Geometry
from v14.models.base import FULL, SLIDING, WITHOUT, Adapter, assemble, every, heads, layer_types, required
from v14.models.rope import rotary


class Gemma3(Adapter):
    """`Gemma3ForCausalLM`. The form with pictures (`Gemma3ForConditionalGeneration`) is refused by the registry."""

    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """See `Adapter.geometry`."""
        for key in ("attn_logit_softcapping", "use_bidirectional_attention"):
            if config.get(key):
                raise UnsupportedModelError(f"config.json: {key} = {config[key]!r} is not supported{WITHOUT}")
        shape = heads(config, head_dim=256)
        pattern = int(config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or 6)
        num_layers = int(required(config, "num_hidden_layers"))
        kinds = layer_types(config, default=every(pattern, num_layers, this=FULL, others=SLIDING))
        rotaries = {kind: rotary(_parameters(config, kind), shape.head_dim) for kind in (FULL, SLIDING)}
        scaling = float(config.get("query_pre_attn_scalar", 256)) ** -0.5
        return assemble(shape, kinds, rotaries, config.get("sliding_window", 4096), scaling)


def _parameters(config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Rope parameters of one kind of layer; older configs scale only the full layers (`rope_scaling`)."""
    parameters = dict((config.get("rope_parameters") or {}).get(kind) or {})
    if kind == FULL:
        parameters.update(config.get("rope_scaling") or {})
        parameters.setdefault("rope_theta", config.get("rope_theta", 1_000_000.0))
    else:
        parameters.setdefault("rope_theta", config.get("rope_local_base_freq", 10_000.0))
    parameters.setdefault("max_position_embeddings", config.get("max_position_embeddings"))
    return parameters


FAMILY = (Gemma3(architecture="Gemma3ForCausalLM", config_class="Gemma3TextConfig"),)
