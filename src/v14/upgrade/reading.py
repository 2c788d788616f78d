"""Reading calibration texts with the real model: events' keys and questions' cues at every candidate head.

Transformers runs the model; queries and keys are taken where they leave the rotary embedding, in an attention function
that otherwise calls the library's own. Events are cut and cues built by the very code that engines use.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig, AutoModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from v14.geometry import Geometry
from v14.recall.cue import build_cue, gather
from v14.recall.voters import Voters
from v14.types import Cue

ATTENTION = "v14_calibration"
FEW_CORES = 4

_taken: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
"""What the attention function saw in the forward pass under way. One reader reads at a time."""


class Reader:
    """The first `num_layers` layers of a checkpoint, in fp32 on the CPU."""

    def __init__(self, checkpoint: Path, geometry: Geometry, num_layers: int) -> None:
        AttentionInterface.register(ATTENTION, _attend)
        AttentionMaskInterface.register(ATTENTION, sdpa_mask)
        config = AutoConfig.from_pretrained(checkpoint)
        config.num_hidden_layers = num_layers
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:num_layers]
        self._geometry = geometry
        self._model = AutoModel.from_pretrained(
            checkpoint, config=config, dtype=torch.float32, attn_implementation=ATTENTION, local_files_only=True
        ).eval()

    def read(self, token_ids: Sequence[int]) -> tuple[Mapping[int, torch.Tensor], Mapping[int, torch.Tensor]]:
        """Queries `[T, num_heads, D]` and keys `[T, num_kv_heads, D]` by layer index, positions from 0 on."""
        _taken.clear()
        with torch.inference_mode():
            self._model(torch.tensor([list(token_ids)]), use_cache=False)
        queries = {layer: q.clone() for layer, (q, _) in _taken.items()}
        keys = {layer: k.clone() for layer, (_, k) in _taken.items()}
        _taken.clear()
        return queries, keys

    def cue(self, token_ids: Sequence[int], start: int, voters: Voters, cue_tokens: int) -> Cue:
        """The cue of a prompt whose new part begins at `start`, of its last `cue_tokens` tokens at most."""
        queries, keys = self.read(token_ids)
        first = max(start, len(token_ids) - cue_tokens)
        late = {layer: q[first:] for layer, q in queries.items()}
        return build_cue(
            *gather(late, keys, self._geometry, voters), self._geometry, voters, first_query=first, start=start
        )


def _attend(module: Any, query: torch.Tensor, key: torch.Tensor, *args: Any, **options: Any) -> Any:
    _taken[module.layer_idx] = (query[0].transpose(0, 1), key[0].transpose(0, 1))
    return sdpa_attention_forward(module, query, key, *args, **options)


@contextmanager
def calm_threads() -> Iterator[None]:
    """One thread on a machine of few cores: calibration texts are short, and two threads that wait for each other
    beside another busy process are ten times slower than one."""
    before = torch.get_num_threads()
    if (os.cpu_count() or 1) <= FEW_CORES:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without the library's own progress bars and its remark that the layers left out were not used."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        logging.enable_progress_bar()
