"""The attention implementations of the memory: the library's own, and while a prompt is probed the queries of the
voters' layers.

Registered with Transformers' AttentionInterface, so the modelling code stays the library's own. Two names, because a
model gets the masks that belong to the implementation behind it: SDPA for most, and for models that SDPA cannot
compute (GPT-OSS: its sinks) the `eager` function of their own modelling file.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask, sdpa_mask

WRAPPERS: Mapping[str, str] = {"sdpa": "v14", "eager": "v14_eager"}
"""By the library's implementation, the name of the one that wraps it."""

Capture = dict[int, torch.Tensor]
"""By model layer index: queries `[Q, heads, D]` as the rotary embedding left them."""

_active: ContextVar[tuple[Collection[int], int, Capture] | None] = ContextVar("v14_probe", default=None)


@contextmanager
def capture_queries(layers: Collection[int], num_tokens: int) -> Iterator[Capture]:
    """Keep the queries of the last `num_tokens` tokens read inside, in one forward pass or several, at `layers` (model
    indices).

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
    _note(module, query)
    return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)


def eager_forward(module: Any, query: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """As `attention_forward`, by the `eager_attention_forward` that stands beside the attention module's class."""
    _note(module, query)
    output: tuple[torch.Tensor, torch.Tensor] = sys.modules[type(module).__module__].eager_attention_forward(
        module, query, *args, **kwargs
    )
    return output


def wrapped(model_class: Any) -> str:
    """The library's implementation that a model class runs with when nobody asks for another."""
    return "sdpa" if model_class._supports_sdpa else "eager"


def register() -> None:
    """Make the implementations known, with the masks that belong to them. Repeating it changes nothing."""
    AttentionInterface.register(WRAPPERS["sdpa"], attention_forward)
    AttentionMaskInterface.register(WRAPPERS["sdpa"], sdpa_mask)
    AttentionInterface.register(WRAPPERS["eager"], eager_forward)
    AttentionMaskInterface.register(WRAPPERS["eager"], eager_mask)


def _note(module: Any, query: torch.Tensor) -> None:
    active = _active.get()
    if active is None or module.layer_idx not in active[0]:
        return
    _, num_tokens, capture = active
    new = query[0, :, -num_tokens:].transpose(0, 1).cpu().clone()
    if module.layer_idx in capture:
        new = torch.cat([capture[module.layer_idx], new])[-num_tokens:]
    capture[module.layer_idx] = new
