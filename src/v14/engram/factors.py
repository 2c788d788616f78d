"""What one event does to the state of one layer, in factors, and layers stacked to an engram."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from v14.types import Engram


class Factors(NamedTuple):
    """One event, one layer: S ↦ S·A + B head by head.

        A = decay · (I − erase_left · erase_rightᵀ)        B = write_values · write_keysᵀ

    decay: `[N]`; erase_left, erase_right: `[N, K, r]` (r is 0 where A is a scalar); write_values: `[N, P, s]`;
    write_keys: `[N, K, s]`. All fp32.
    """

    decay: torch.Tensor
    erase_left: torch.Tensor
    erase_right: torch.Tensor
    write_values: torch.Tensor
    write_keys: torch.Tensor


def conv_tail(inputs: torch.Tensor, width: int) -> torch.Tensor:
    """What an event leaves to a causal convolution that sees `width` tokens: its last inputs, `[C, min(T, width - 1)]`.

    inputs: `[T, C]`, as they enter the convolution.
    """
    return inputs[max(0, inputs.shape[0] - width + 1) :].mT.contiguous()


def stack(layers: Sequence[Factors], tails: Sequence[torch.Tensor]) -> Engram:
    """The engram of a model's recurrent layers, in their order.

    `layers` is empty for a model whose recurrent layers are short convolutions alone; `tails[i]`, `[C, t]`, is the
    convolution tail of layer i. Raises `ValueError` where the two do not belong together.
    """
    if not tails or (layers and len(layers) != len(tails)):
        raise ValueError(f"{len(layers)} layers and {len(tails)} convolution tails make no engram")
    if not layers:
        layers = [_stateless(tails[0].device)] * len(tails)
    fields = (torch.stack(field) for field in zip(*layers, strict=True))
    return Engram(**dict(zip(Factors._fields, fields, strict=True)), tail=torch.stack(list(tails)))


def by_head(shared: torch.Tensor, num_heads: int) -> torch.Tensor:
    """`[T, G, K]` of G groups as fp32 `[N, T, K]` of N heads; neighbouring heads share a group."""
    num_groups = shared.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} heads cannot share {num_groups} groups of keys")
    return shared.float().repeat_interleave(num_heads // num_groups, dim=1).transpose(0, 1)


def _stateless(device: torch.device) -> Factors:
    none = torch.empty(0, 0, 0, device=device)
    return Factors(torch.empty(0, device=device), none, none, none, none)
