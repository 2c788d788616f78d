"""The attention implementation `v14`: PyTorch's SDPA, and while a prompt is probed the queries of the voters' layers.

Registered with Transformers' AttentionInterface, so the modelling code stays the library's own.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

IMPLEMENTATION = "v14"
WRAPPED = "sdpa"

Capture = dict[int, torch.Tensor]
"""By model layer index: queries `[Q, heads, D]` as the rotary embedding left them."""

_active: ContextVar[tuple[Collection[int], int, Capture] | None] = ContextVar("v14_probe", default=None)


@contextmanager
def capture_queries(layers: Collection[int], num_tokens: int) -> Iterator[Capture]:
    """Keep the queries of the last `num_tokens` tokens at `layers` (model indices) of each forward pass inside.

    Only sequences of batch size 1 are probed. Nested and concurrent probes of other threads do not see each other.
    """
    capture: Capture = {}
    token = _active.set((layers, num_tokens, capture))
    try:
        yield capture
    finally:
        _active.reset(token)


def attention_forward(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """SDPA of query `[B, heads, Q, D]` over key and value `[B, H, P, D]`; see `capture_queries`."""
    active = _active.get()
    if active is not None and module.layer_idx in active[0]:
        _, num_tokens, capture = active
        capture[module.layer_idx] = query[0, :, -num_tokens:].transpose(0, 1).cpu().clone()
    return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)


def register() -> None:
    """Make `attn_implementation="v14"` known, with the masks that SDPA gets. Repeating it changes nothing."""
    AttentionInterface.register(IMPLEMENTATION, attention_forward)
    AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)
