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


def compose(first: Engram, second: Engram, *, conv_width: int | None = None) -> Engram:
    """One engram that does what `first` and then `second` do; ranks add up. Factors are fp32.

        A = A₁A₂ = γ₁γ₂ (I − L₁R₁ᵀ − (L₂ − L₁R₁ᵀL₂) R₂ᵀ)        B = B₁A₂ + B₂ = V₁ (A₂ᵀK₁)ᵀ + V₂K₂ᵀ

    Both tails stay in one behind the other, cut to the last `conv_width - 1` inputs where that is given.
    """
    left_1, right_1, left_2, right_2 = (
        factor.float() for factor in (first.erase_left, first.erase_right, second.erase_left, second.erase_right)
    )
    keys = first.write_keys.float()
    moved_keys = second.decay[..., None, None] * (keys - right_2 @ (left_2.mT @ keys))
    tail = torch.cat([first.tail, second.tail], dim=-1)
    if conv_width is not None:
        tail = tail[..., max(0, tail.shape[-1] - conv_width + 1) :]
    return Engram(
        decay=first.decay * second.decay,
        erase_left=torch.cat([left_1, left_2 - left_1 @ (right_1.mT @ left_2)], dim=-1),
        erase_right=torch.cat([right_1, right_2], dim=-1),
        write_values=torch.cat([first.write_values.float(), second.write_values.float()], dim=-1),
        write_keys=torch.cat([moved_keys, second.write_keys.float()], dim=-1),
        tail=tail,
    )
