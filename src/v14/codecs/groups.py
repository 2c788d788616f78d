"""Uniform quantisation of a layer's keys or values in groups: x ≈ low + step · code, code from 0 to 2^bits − 1.

Keys are grouped along the tokens, channel by channel, because a few channels of a key are far larger than the rest and
keep their size from token to token; values along the channels, token by token (KIVI, arXiv 2402.02750, section 3).
`low` is rounded down and `step` up to fp16, so that no value lies outside its group's codes and each comes back within
half a step, before it is rounded to its dtype. `v14.codecs.naive` says the same in plain loops.

A layer becomes one row of bytes, so that layers are read, checked and sealed one by one:

    codes, in the order of [T, H, D], the first of two 4-bit codes in the low half of its byte
    step of every group, fp16, in the order of the groups
    low of every group, fp16
"""

import math
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from v14.errors import TraceCorruptError

MAX_MAGNITUDE = 65504.0
"""Largest finite fp16: beyond it a group's `low` cannot be written."""

PAIR_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """`bits` a code (4 or 8); groups of at most `size` neighbours along `axis` of a layer `[T, H, D]`.

    A length that is no multiple of `size` is cut into equal groups, the last of them shorter.
    """

    bits: int
    axis: int
    size: int

    def groups(self, length: int) -> tuple[int, int]:
        """Number of groups along the axis and the length of all but the last."""
        num_groups = math.ceil(length / self.size)
        group = math.ceil(length / num_groups) if num_groups else 1
        return math.ceil(length / group), group

    def row_bytes(self, shape: tuple[int, int, int]) -> int:
        """Bytes of one layer of shape `(T, H, D)`."""
        numel = math.prod(shape)
        length = shape[self.axis]
        num_pairs = numel // length * self.groups(length)[0] if length else 0
        return math.ceil(numel * self.bits / 8) + PAIR_BYTES * num_pairs


def quantizable(x: torch.Tensor) -> bool:
    """Whether every value is finite and within fp16's range."""
    return not x.numel() or bool((x.float().abs() <= MAX_MAGNITUDE).all())


def encode(x: torch.Tensor, grouping: Grouping) -> torch.Tensor:
    """Layers `[L, T, H, D]`, any floating dtype, as rows of bytes `[L, B]`. Values must be `quantizable`."""
    num_layers = x.shape[0]
    if not x.numel():
        return torch.empty(num_layers, 0, dtype=torch.uint8)
    along = x.float().movedim(grouping.axis + 1, -1)
    length = along.shape[-1]
    num_groups, group = grouping.groups(length)
    # The last value repeated changes no group's least and greatest.
    filled = pad(along.flatten(0, -2), (0, num_groups * group - length), mode="replicate").view(-1, num_groups, group)
    least, greatest = filled.aminmax(dim=-1)
    low = _down(least)
    step = _up((greatest - low.float()) / (2**grouping.bits - 1))
    divisor = torch.where(step > 0, step.float(), 1.0)
    codes = ((filled - low.float()[..., None]) / divisor[..., None]).round_().clamp_(0, 2**grouping.bits - 1)
    codes = codes.to(torch.uint8).view(*along.shape[:-1], -1)[..., :length].movedim(-1, grouping.axis + 1)
    packed = _pack(codes.reshape(num_layers, -1), grouping.bits)
    return torch.cat([packed, *(_bytes(pairs, num_layers) for pairs in (step, low))], dim=1)


def decode(rows: torch.Tensor, shape: tuple[int, int, int], grouping: Grouping, dtype: torch.dtype) -> torch.Tensor:
    """The inverse: rows `[L, B]` uint8 to layers `[L, *shape]` in `dtype`.

    Raises `TraceCorruptError` where rows do not have the bytes of `shape`.
    """
    num_layers, numel, length = rows.shape[0], math.prod(shape), shape[grouping.axis]
    if rows.dtype != torch.uint8 or rows.shape[1:] != (grouping.row_bytes(shape),):
        raise TraceCorruptError(f"{rows.dtype} rows {list(rows.shape)} are no layers {list(shape)} of {grouping}")
    if not rows.numel():
        return torch.empty(num_layers, *shape, dtype=dtype)
    num_groups, group = grouping.groups(length)
    num_codes = math.ceil(numel * grouping.bits / 8)
    codes = _unpack(rows[:, :num_codes], grouping.bits, numel).view(num_layers, *shape)
    pairs = (
        rows[:, num_codes:]
        .clone(memory_format=torch.contiguous_format)
        .view(torch.float16)
        .view(num_layers, 2, -1, num_groups)
    )
    step, low = (
        half.float().repeat_interleave(group, dim=-1)[..., :length].reshape(num_layers, -1, length)
        for half in pairs.unbind(1)
    )
    along = codes.movedim(grouping.axis + 1, -1)
    values = along.reshape(num_layers, -1, length).float().mul_(step).add_(low)
    return values.view(along.shape).movedim(-1, grouping.axis + 1).to(dtype).contiguous()


def _pack(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """`[L, N]` uint8 codes to bytes."""
    if bits == 8:
        return codes
    even = pad(codes, (0, codes.shape[1] % 2)).view(len(codes), -1, 2)
    return even[..., 0] | even[..., 1] << 4


def _unpack(packed: torch.Tensor, bits: int, numel: int) -> torch.Tensor:
    if bits == 8:
        return packed
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(1)[:, :numel]


def _bytes(pairs: torch.Tensor, num_layers: int) -> torch.Tensor:
    return pairs.contiguous().view(torch.uint8).view(num_layers, -1)


def _down(x: torch.Tensor) -> torch.Tensor:
    """The greatest fp16 that is not above x."""
    half = x.half()
    bits = half.view(torch.int16)
    # Numbers below zero are written as sign and magnitude, so towards minus infinity is up in bits; 0 leads to -2^-24.
    lower = torch.where(bits > 0, bits - 1, torch.where(bits == 0, torch.tensor(-32767, dtype=torch.int16), bits + 1))
    return torch.where(half.float() > x, lower.view(torch.float16), half)


def _up(x: torch.Tensor) -> torch.Tensor:
    """The least fp16 that is not below x, for x >= 0."""
    half = x.half()
    return torch.where(half.float() < x, (half.view(torch.int16) + 1).view(torch.float16), half)
