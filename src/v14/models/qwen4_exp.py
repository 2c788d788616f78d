"""Qwen4-Exp: Qwen3.5's layers with more that crosses from an event to what follows it.

- Attention is indexed: beyond `indexer_budget` tokens a query sees only the blocks that an index of its own selects,
  and that index keeps keys of its own (`indexer_head_dim` per token and layer), in blocks counted from the start of the
  sequence.
- Some recurrent layers add embeddings of the last tokens (`ple_layer_ids`). They keep the ids of `ngram_size - 1`
  tokens and a second, dilated convolution: (`ple_conv_kernel_size - 1`) * `ngram_size` inputs of `hc_count` *
  `hidden_size` channels.

A trace holds neither, so events of this family are not placed: they are read again, which makes all of it anew. Votes
are taken as if every key were visible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from v14.geometry import Geometry
from v14.models.base import FULL
from v14.models.qwen3_5 import Qwen35

INDEXED = ("indexed_attention", "qwen_sparse_attention")


class Qwen4Exp(Qwen35):
    """`Qwen4ExpForConditionalGeneration` and `Qwen4ExpForCausalLM`."""

    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """See `Adapter.geometry`."""
        return replace(super().geometry(config), placeable=False)

    def kinds(self, config: Mapping[str, Any]) -> Sequence[str]:
        """Every attention layer is an indexed one, under whichever name."""
        named = [FULL if kind in INDEXED else kind for kind in config.get("layer_types") or ()]
        return super().kinds({**config, "layer_types": named})


FAMILY = (
    Qwen4Exp(architecture="Qwen4ExpForConditionalGeneration", config_class="Qwen4ExpConfig", turning=1.0),
    Qwen4Exp(architecture="Qwen4ExpForCausalLM", config_class="Qwen4ExpTextConfig", turning=1.0),
)
