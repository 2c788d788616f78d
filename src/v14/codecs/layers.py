"""Keys or values layer by layer as rows of bytes, each in its own codec, one behind the other.

In 8 bits a group of keys is an event's whole length (at most 128 tokens), one of values 128 channels: 8.25 bits an
element with the group's two fp16 numbers. In 4 bits keys want shorter groups, 32 tokens (5 bits); values have 64
channels (4.5 bits). Turning keys back to where every token stands at position 0 gains nothing (LOG.md, 2026-11-30).
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch

from v14.codecs.groups import Grouping, decode, encode, quantizable
from v14.config import Codec
from v14.errors import TraceCorruptError

Half = Literal["keys", "values"]

GROUPINGS: dict[tuple[Codec, Half], Grouping] = {
    ("int8", "keys"): Grouping(bits=8, axis=0, size=128),
    ("int8", "values"): Grouping(bits=8, axis=2, size=128),
    ("int4", "keys"): Grouping(bits=4, axis=0, size=32),
    ("int4", "values"): Grouping(bits=4, axis=2, size=64),
}


def row_bytes(codec: Codec, half: Half, shape: tuple[int, int, int], dtype: torch.dtype) -> int:
    """Bytes of one layer `(T, H, D)` of `dtype`."""
    if codec == "native":
        return math.prod(shape) * dtype.itemsize
    return GROUPINGS[codec, half].row_bytes(shape)


def encode_layers(x: torch.Tensor, codecs: Sequence[Codec], half: Half) -> list[torch.Tensor]:
    """Layers `[L, T, H, D]` as rows, `[B]` uint8 each; layer l in `codecs[l]`. Values must be `quantizable`."""
    rows = [torch.empty(0)] * len(codecs)
    for codec in set(codecs):
        places = [place for place, wanted in enumerate(codecs) if wanted == codec]
        chosen = x[places]
        encoded = _raw(chosen) if codec == "native" else encode(chosen, GROUPINGS[codec, half])
        for place, row in zip(places, encoded, strict=True):
            rows[place] = row
    return rows


def decode_layers(
    rows: Sequence[torch.Tensor], codecs: Sequence[Codec], half: Half, shape: tuple[int, int, int], dtype: torch.dtype
) -> torch.Tensor:
    """The inverse: `[L, T, H, D]` in `dtype`. Raises `TraceCorruptError` for rows of other lengths."""
    out = torch.empty(len(rows), *shape, dtype=dtype)
    for codec in sorted(set(codecs)):
        places = [place for place, wanted in enumerate(codecs) if wanted == codec]
        wanted_bytes = row_bytes(codec, half, shape, dtype)
        if any(rows[place].shape != (wanted_bytes,) for place in places):
            raise TraceCorruptError(
                f"layers {list(shape)} in {codec} have rows of {wanted_bytes} bytes, these have not"
            )
        stacked = torch.stack([rows[place] for place in places])
        if not stacked.numel():
            continue
        if codec == "native":
            decoded = stacked.view(dtype).view(-1, *shape)
        else:
            decoded = decode(stacked, shape, GROUPINGS[codec, half], dtype)
        if len(places) == len(rows):
            return decoded
        out[places] = decoded
    return out


def smaller(keys: torch.Tensor, values: torch.Tensor, codec: Codec) -> bool:
    """Whether a trace `[L, T, H, D]` can be brought into `codec` and is smaller in it."""
    shape = (int(keys.shape[1]), int(keys.shape[2]), int(keys.shape[3]))
    halves: tuple[Half, Half] = ("keys", "values")
    packed = sum(row_bytes(codec, half, shape, keys.dtype) for half in halves)
    plain = 2 * math.prod(shape) * keys.element_size()
    return packed < plain and quantizable(keys) and quantizable(values)


def _raw(x: torch.Tensor) -> torch.Tensor:
    flat = x.contiguous().flatten(1)
    return flat.view(torch.uint8) if flat.numel() else torch.empty(len(x), 0, dtype=torch.uint8)
