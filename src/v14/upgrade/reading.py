"""Reading calibration texts with the real model: events' keys and questions' cues at every candidate head.

Transformers runs the model; queries and keys are taken where they leave the rotary embedding, in an attention function
that otherwise calls the library's own. Events are cut and cues built by the very code that engines use. Of a model that
takes pictures, only the language model reads.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig, Mxfp4Config
from transformers.masking_utils import eager_mask, sdpa_mask

from v14.engines.transformers.attention import attention_forward, eager_forward, wrapped
from v14.geometry import Geometry
from v14.recall.cue import build_cue, gather
from v14.recall.voters import Voters
from v14.types import Cue

ATTENTION = {"sdpa": "v14_calibration", "eager": "v14_calibration_eager"}
"""By the library's implementation, the name of the one that takes queries and keys and then calls it."""

PER_LAYER = ("layer_types", "layers_block_type")
"""Keys of a configuration that hold one value for each layer."""

FEW_CORES = 4

_taken: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
"""What the attention function saw in the forward pass under way. One reader reads at a time."""


class Reader:
    """A checkpoint up to its `num_layers`-th attention layer, in fp32 on a device. What it read comes to the CPU."""

    def __init__(
        self, checkpoint: Path, geometry: Geometry, num_layers: int, device: torch.device | str = "cpu"
    ) -> None:
        AttentionInterface.register(ATTENTION["sdpa"], _taking(attention_forward))
        AttentionMaskInterface.register(ATTENTION["sdpa"], sdpa_mask)
        AttentionInterface.register(ATTENTION["eager"], _taking(eager_forward))
        AttentionMaskInterface.register(ATTENTION["eager"], eager_mask)
        config = AutoConfig.from_pretrained(checkpoint, local_files_only=True)
        model_class = getattr(transformers, config.architectures[0])
        packed = getattr(config, "quantization_config", None) is not None
        shorten(config.get_text_config(), geometry.layers[num_layers - 1].index + 1)
        model = model_class.from_pretrained(
            checkpoint,
            config=config,
            dtype=torch.float32,
            attn_implementation=ATTENTION[wrapped(model_class)],
            local_files_only=True,
            # The only packed weights that get here (`make.UNPACKED`); on a CPU they are computed with unpacked.
            **({"quantization_config": Mxfp4Config(dequantize=True)} if packed else {}),
        )
        self._geometry = geometry
        # Twice: what stands behind a picture tower may be a whole language model with a head of its own.
        self._model = model.get_decoder().get_decoder().float().eval().to(device)
        self._device = device

    def sinks(self, heads: Sequence[tuple[int, int]]) -> tuple[float, ...]:
        """The learned sink score of each (layer, head); empty for a model that has none."""
        found = {m.layer_idx: m.sinks.tolist() for m in self._model.modules() if hasattr(m, "sinks")}
        return tuple(found[layer][head] for layer, head in heads) if found else ()

    def read(self, token_ids: Sequence[int]) -> tuple[Mapping[int, torch.Tensor], Mapping[int, torch.Tensor]]:
        """Queries `[T, num_heads, D]` and keys `[T, num_kv_heads, D]` by layer index, positions from 0 on."""
        _taken.clear()
        with torch.inference_mode():
            self._model(torch.tensor([list(token_ids)], device=self._device), use_cache=False)
        queries = {layer: q.to("cpu", copy=True) for layer, (q, _) in _taken.items()}
        keys = {layer: k.to("cpu", copy=True) for layer, (_, k) in _taken.items()}
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


def shorten(config: Any, num_layers: int) -> None:
    """Cut a language model's configuration to its first layers, in every key that counts or names them."""
    for key in PER_LAYER:
        if getattr(config, key, None):
            setattr(config, key, getattr(config, key)[:num_layers])
    if getattr(config, "ple_layer_ids", None):
        config.ple_layer_ids = [number for number in config.ple_layer_ids if number <= num_layers]
    config.num_hidden_layers = num_layers


def _taking(attend: Callable[..., Any]) -> Callable[..., Any]:
    """`attend`, an attention function of the library's form, that leaves its queries and keys in `_taken`."""

    def forward(module: Any, query: torch.Tensor, key: torch.Tensor, *args: Any, **options: Any) -> Any:
        _taken[module.layer_idx] = (query[0].transpose(0, 1), key[0].transpose(0, 1))
        return attend(module, query, key, *args, **options)

    return forward


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
