"""Nemotron-H: Mamba2, a few attention layers without rotation, and feed-forward layers that stand alone.

Every block is one mixer, so the layer index counts blocks; the order of tokens reaches the attention through the
recurrent layers only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from v14.geometry import Geometry, RecurrentStack
from v14.models.base import FULL, LINEAR, Adapter, assemble, checked, heads, indices_of, required, text_config

MLP, MOE = "mlp", "moe"
LETTERS = {"M": LINEAR, "*": FULL, "-": MLP, "E": MOE}
"""`hybrid_override_pattern`, one letter for each layer."""

OLDER = {"mamba": LINEAR, "attention": FULL}
"""Names in `layers_block_type` before Transformers 5.19."""


class NemotronH(Adapter):
    """`NemotronHForCausalLM`, and the language model of the form that sees and hears."""

    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """See `Adapter.geometry`."""
        config = text_config(config)
        shape = heads(config, head_dim=128)
        kinds = _kinds(config)
        num_heads, head_dim = int(config.get("mamba_num_heads", 128)), int(config.get("mamba_head_dim", 64))
        num_groups = int(config.get("mamba_n_groups") or config.get("n_groups", 8))
        state_dim = int(config.get("ssm_state_size", 128))
        recurrent = RecurrentStack(
            kind="mamba2",
            indices=indices_of(LINEAR, kinds),
            num_heads=num_heads,
            key_dim=state_dim,
            value_dim=head_dim,
            conv_channels=num_heads * head_dim + 2 * num_groups * state_dim,
            conv_width=int(config.get("mamba_d_conv") or config.get("conv_kernel", 4)),
        )
        return assemble(shape, kinds, {FULL: None}, None, shape.head_dim**-0.5, recurrent)


def _kinds(config: Mapping[str, Any]) -> Sequence[str]:
    """The kind of each block: a list of names or, in older files, a string of letters."""
    known = (FULL, LINEAR, MLP, MOE)
    named = config.get("layers_block_type") or config.get("layer_types")
    if named:
        return checked([OLDER.get(kind, kind) for kind in named], known)
    return checked([LETTERS.get(letter, letter) for letter in required(config, "hybrid_override_pattern")], known)


FAMILY = (
    NemotronH(architecture="NemotronHForCausalLM", config_class="NemotronHConfig"),
    NemotronH(
        architecture="NemotronH_Omni_Reasoning_V3",
        config_class="NemotronH_Omni_Reasoning_V3_Config",
        v14_name="NemotronHV14ForConditionalGeneration",
    ),
)
