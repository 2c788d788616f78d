"""The header of a safetensors file, so that some of its bytes can be read without the rest.

8 bytes: length of the header, little-endian. Then the header, JSON: tensor name to dtype, shape and offsets behind the
header; `__metadata__` to strings. (https://huggingface.co/docs/safetensors, "Format".)
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from v14.errors import TraceCorruptError
from v14.store.foundation import Blobs

FIRST_READ_BYTES = 1 << 16
"""Holds the header of most segments, so that one read of a remote blob is enough."""

MAX_HEADER_BYTES = 100_000_000
"""As safetensors itself allows."""

DTYPES = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F32": torch.float32,
    "I8": torch.int8,
    "U8": torch.uint8,
    "I64": torch.int64,
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """A tensor in a blob: bytes [start, end) of it."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Header:
    """Places by tensor name, and the file's metadata."""

    places: Mapping[str, Place]
    metadata: Mapping[str, str]


def read_header(blobs: Blobs, name: str) -> Header:
    """The header of a blob. Raises `TraceCorruptError` where it is none, and as `Blobs.read`."""
    [first] = blobs.read(name, [(0, FIRST_READ_BYTES)])
    data = bytes(first)
    end = 8 + int.from_bytes(data[:8], "little")
    try:
        if len(data) < 8 or end > MAX_HEADER_BYTES:
            raise ValueError(f"no header in {len(data)} bytes")
        if end > len(data):
            data += bytes(blobs.read(name, [(len(data), end)])[0])
        entries = json.loads(data[8:end])
        metadata = entries.pop("__metadata__", {})
        return Header(places={key: _place(entry, end) for key, entry in entries.items()}, metadata=metadata)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, TraceCorruptError):
            raise
        raise damaged(blobs, name, f"its header does not read: {error!r}") from error


def damaged(blobs: Blobs, name: str, why: str) -> TraceCorruptError:
    """The error for a blob that is not what was written."""
    return TraceCorruptError(f"{blobs.where(name)} is missing or damaged ({why}); its events are set aside")


def _place(entry: Mapping[str, Any], data_start: int) -> Place:
    dtype, shape = DTYPES[entry["dtype"]], tuple(map(int, entry["shape"]))
    start, end = map(int, entry["data_offsets"])
    if min(shape, default=0) < 0 or start < 0 or end - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"offsets {start} to {end} for shape {shape}")
    return Place(dtype=dtype, shape=shape, start=data_start + start, end=data_start + end)
