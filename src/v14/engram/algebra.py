"""Applying engrams to recurrent states, and composing them.

Shapes as in `v14.types`: R recurrent layers, N heads, K key dimension, P value dimension, C channels, W width.
"""

from collections.abc import Iterable

import torch

from v14.types import Engram


def advance(
    states: torch.Tensor, inputs: torch.Tensor, engrams: Iterable[Engram | None]
) -> tuple[torch.Tensor, torch.Tensor]:
    """States `[R, N, P, K]` fp32 and convolution inputs `[R, C, W - 1]` behind the events, in their order.

    `None` stands for an event whose engram was not kept: it changes nothing.
    """
    for engram in engrams:
        if engram is None:
            continue
        erased = (states @ engram.erase_left.float()) @ engram.erase_right.float().mT
        written = engram.write_values.float() @ engram.write_keys.float().mT
        states = engram.decay[..., None, None] * (states - erased) + written
        width = inputs.shape[-1]
        inputs = torch.cat([inputs, engram.tail.to(inputs.dtype)], dim=-1)[..., -width:] if width else inputs
    return states, inputs


def compose(first: Engram, second: Engram) -> Engram:
    """One engram that does what `first` and then `second` do; ranks add up."""
    raise NotImplementedError
