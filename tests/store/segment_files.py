"""Segments by the path of their file, each opened anew: nothing of an earlier reading is remembered."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from v14.store.files import FileBlobs
from v14.store.pending import Key
from v14.store.segments import Segments
from v14.store.spec import Spec
from v14.types import Trace


def write_segment(path: Path, traces: Mapping[Key, Trace], weights_id: str, *, fsync: bool = True) -> int:
    """Write traces to a file; its bytes."""
    Segments(FileBlobs(path.parent, fsync=fsync), weights_id).write(path.name, traces)
    return path.stat().st_size


def read_trace(path: Path, key: Key, spec: Spec, weights_id: str) -> Trace:
    return Segments(FileBlobs(path.parent), weights_id).trace(path.name, key, spec)


def read_keys(path: Path, key: Key, spec: Spec, weights_id: str, slots: Sequence[int]) -> torch.Tensor:
    return Segments(FileBlobs(path.parent), weights_id).keys(path.name, key, spec, slots)


def flip_last(path: Path) -> None:
    """Change the last byte of a file."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
