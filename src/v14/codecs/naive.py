"""`v14.codecs.groups` in plain loops over one layer: what the vectorised code must agree with, byte for byte."""

import itertools

import numpy as np
import torch

from v14.codecs.groups import Grouping


def encode_layer(layer: torch.Tensor, grouping: Grouping) -> bytes:
    """One layer `[T, H, D]` as its row of bytes."""
    x = layer.float()
    codes = torch.zeros(x.shape, dtype=torch.int64)
    steps, lows = [], []
    for place, start, stop in _groups(x.shape, grouping):
        line = x.movedim(grouping.axis, -1)[place][start:stop]
        low = _rounded(line.min(), up=False)
        step = _rounded((line.max() - low.float()) / (2**grouping.bits - 1), up=True)
        coded = torch.zeros_like(line) if step == 0 else ((line - low.float()) / step.float()).round()
        codes.movedim(grouping.axis, -1)[place][start:stop] = coded.clamp(0, 2**grouping.bits - 1)
        steps.append(step)
        lows.append(low)
    return _packed(codes.flatten().tolist(), grouping.bits) + b"".join(
        number.numpy().tobytes() for number in (*steps, *lows)
    )


def decode_layer(row: bytes, shape: tuple[int, int, int], grouping: Grouping) -> torch.Tensor:
    """The inverse, `[T, H, D]` fp32."""
    out = torch.zeros(shape)
    num_codes = -(-out.numel() * grouping.bits // 8)
    codes = torch.tensor(_unpacked(row[:num_codes], grouping.bits)[: out.numel()], dtype=torch.float32).view(shape)
    pairs = torch.frombuffer(bytearray(row[num_codes:]), dtype=torch.float16).float()
    steps, lows = pairs.chunk(2)
    for number, (place, start, stop) in enumerate(_groups(out.shape, grouping)):
        line = codes.movedim(grouping.axis, -1)[place][start:stop]
        out.movedim(grouping.axis, -1)[place][start:stop] = line * steps[number] + lows[number]
    return out


def _groups(shape: torch.Size, grouping: Grouping) -> list[tuple[tuple[int, ...], int, int]]:
    """(place in the other two axes, start, stop) of every group, in order."""
    length = shape[grouping.axis]
    others = [range(size) for axis, size in enumerate(shape) if axis != grouping.axis]
    _, group = grouping.groups(length)
    starts = range(0, length, group)
    return [(place, start, min(start + group, length)) for place in itertools.product(*others) for start in starts]


def _rounded(x: torch.Tensor, *, up: bool) -> torch.Tensor:
    """To fp16, never down or never up."""
    half = np.float16(x.item())
    if float(half) < x.item() if up else float(half) > x.item():
        half = np.nextafter(half, np.float16(np.inf if up else -np.inf))
    return torch.tensor(half)


def _packed(codes: list[int], bits: int) -> bytes:
    if bits == 8:
        return bytes(codes)
    even = codes + [0] * (len(codes) % 2)
    return bytes(low | high << 4 for low, high in zip(even[::2], even[1::2], strict=True))


def _unpacked(packed: bytes, bits: int) -> list[int]:
    return list(packed) if bits == 8 else [code for byte in packed for code in (byte & 15, byte >> 4)]
