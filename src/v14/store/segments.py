"""Segments: safetensors files, each written whole by one commit and never changed.

Tensors of an event are `<namespace>/<event id>.k` and `.v`, each `[L, T, H, D]` (letters in `v14.types`), and where its
trace has an engram, `.e.<field>` for each field of that. The file's metadata has one key, `v14`, so that equal traces
make equal bytes: format version and weights id, as JSON.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from v14.errors import StoreError, StoreVersionError, TraceCorruptError
from v14.store.layout import TEMPORARY_SUFFIX, sync_directory
from v14.types import Engram, Trace

SEGMENT_VERSION = 1
METADATA_KEY = "v14"
DIGEST_BYTES = 8
"""Of SHA-256, for each layer's keys, each layer's values, each engram field: against decay, not against a forger."""

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


@dataclass(frozen=True, kw_only=True)
class Part:
    """What the catalog knows about one tensor of an engram: dtype name, shape, digest."""

    dtype: str
    shape: tuple[int, ...]
    digest: bytes

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "Part":
        """Raises `ValueError` for a dtype that segments do not hold."""
        return cls(dtype=_dtype_name(tensor), shape=tuple(tensor.shape), digest=_digest(tensor))


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What the catalog knows about a trace: dtype name, shape `(L, T, H, D)`, digests of keys then values by layer.

    `engram` has the parts by field name, and is None where the trace has no engram.
    """

    dtype: str
    shape: tuple[int, ...]
    digests: bytes
    engram: Mapping[str, Part] | None = None

    @classmethod
    def of(cls, trace: Trace) -> "Spec":
        """The spec of a trace. Raises `ValueError` for a dtype that segments do not hold."""
        digests = b"".join(_digest(layer) for tensor in (trace.keys, trace.values) for layer in tensor)
        parts = None
        if trace.engram is not None:
            parts = {name: Part.of(tensor) for name, tensor in trace.engram.tensors().items()}
        return cls(dtype=_dtype_name(trace.keys), shape=tuple(trace.keys.shape), digests=digests, engram=parts)

    def check(self, layer: torch.Tensor, place: int) -> bool:
        """Whether a layer's keys (place = slot) or values (place = L + slot), `[T, H, D]`, are what was stored."""
        return _digest(layer) == self.digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]


def check_dtypes(trace: Trace) -> None:
    """Raise `ValueError` where a trace has a dtype that segments do not hold."""
    for tensor in (trace.keys, *(trace.engram.tensors().values() if trace.engram else ())):
        _dtype_name(tensor)


def tensor_names(namespace: str, event_id: str) -> tuple[str, str]:
    """Names of an event's keys and values; an id holds no `/`, so no two namespaces share one."""
    return f"{namespace}/{event_id}.k", f"{namespace}/{event_id}.v"


def engram_name(namespace: str, event_id: str, field: str) -> str:
    """Name of one field of an event's engram."""
    return f"{namespace}/{event_id}.e.{field}"


def write_segment(path: Path, traces: Mapping[tuple[str, str], Trace], weights_id: str, *, fsync: bool = True) -> int:
    """Write the traces by (namespace, event id) to `path`; return the file's bytes. Raises `OSError`.

    Whole or not at all: the file gets its name only when its content is on disk.
    """
    tensors: dict[str, torch.Tensor] = {}
    storages: set[int] = set()
    for key, trace in traces.items():
        for name, tensor in _named(key, trace):
            # safetensors refuses tensors that share memory
            shared = tensor.untyped_storage().data_ptr() in storages
            tensors[name] = tensor.contiguous().clone() if shared else tensor.contiguous()
            storages.add(tensor.untyped_storage().data_ptr())
    metadata = {METADATA_KEY: json.dumps({"version": SEGMENT_VERSION, "weights_id": weights_id})}
    temporary = path.with_suffix(TEMPORARY_SUFFIX)
    try:
        _save(tensors, temporary, metadata)
        if fsync:
            _sync_file(temporary)
        num_bytes = temporary.stat().st_size
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if fsync:
        sync_directory(path.parent)
    return num_bytes


def read_trace(path: Path, key: tuple[str, str], spec: Spec, weights_id: str) -> Trace:
    """The trace of (namespace, event id), checked. Raises `TraceCorruptError`, `StoreVersionError`, `StoreError`."""
    slots = range(spec.shape[0])
    with _opened(path, weights_id) as file:
        keys, values = (_layers(file, path, name, spec, slots, half) for half, name in enumerate(tensor_names(*key)))
        parts = {} if spec.engram is None else spec.engram
        fields = {field: _whole(file, path, engram_name(*key, field), part) for field, part in parts.items()}
    return Trace(keys=keys, values=values, engram=Engram(**fields) if fields else None)


def read_keys(path: Path, key: tuple[str, str], spec: Spec, weights_id: str, slots: Sequence[int]) -> torch.Tensor:
    """Keys `[len(slots), T, H, D]` of some layers, checked; nothing else is read. Raises as `read_trace`."""
    with _opened(path, weights_id) as file:
        return _layers(file, path, tensor_names(*key)[0], spec, slots, 0)


def _layers(file: Any, path: Path, name: str, spec: Spec, slots: Sequence[int], half: int) -> torch.Tensor:
    """Layers of one tensor, copied off the mapped file and checked; half 0 is keys, 1 is values."""
    part = file.get_slice(name)
    out = torch.empty((len(slots), *spec.shape[1:]), dtype=DTYPES[spec.dtype])
    if tuple(part.get_shape()) != spec.shape:
        raise TraceCorruptError(f"{path}: {name} has shape {part.get_shape()}, the catalog says {list(spec.shape)}")
    for row, slot in enumerate(slots):
        layer = part[slot : slot + 1][0]
        if layer.dtype != out.dtype or not spec.check(out[row].copy_(layer), half * spec.shape[0] + slot):
            raise TraceCorruptError(f"{path}: {name}, layer {slot}, is not what was stored")
    return out


def _whole(file: Any, path: Path, name: str, part: Part) -> torch.Tensor:
    """One tensor, copied off the mapped file and checked."""
    stored = file.get_tensor(name)
    if str(stored.dtype) != f"torch.{part.dtype}" or tuple(stored.shape) != part.shape:
        raise TraceCorruptError(f"{path}: {name} is {stored.dtype} {list(stored.shape)}, the catalog says {part}")
    out = torch.empty(part.shape, dtype=stored.dtype).copy_(stored)
    if _digest(out) != part.digest:
        raise TraceCorruptError(f"{path}: {name} is not what was stored")
    return out


def _named(key: tuple[str, str], trace: Trace) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a trace under their names."""
    yield from zip(tensor_names(*key), (trace.keys, trace.values), strict=True)
    if trace.engram is not None:
        for field, tensor in trace.engram.tensors().items():
            yield engram_name(*key, field), tensor


def _dtype_name(tensor: torch.Tensor) -> str:
    """The catalog's word for a dtype. Raises `ValueError` for one that segments do not hold."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"a trace of dtype {name} cannot be stored; {', '.join(DTYPES)} can")
    return name


@contextlib.contextmanager
def _opened(path: Path, weights_id: str) -> Iterator[Any]:
    try:
        # Unlike safe_open, this tells a missing file from one that cannot be opened just now.
        os.close(os.open(path, os.O_RDONLY))
        with safe_open(path, framework="pt") as file:
            _check_metadata(path, file.metadata() or {}, weights_id)
            yield file
    except (FileNotFoundError, NotADirectoryError, SafetensorError) as error:
        raise TraceCorruptError(f"{path} is missing or damaged ({error}); its events are set aside") from error
    except (OSError, RuntimeError) as error:
        damaged = isinstance(error, OSError) and error.errno in (errno.EIO, errno.EISDIR, None)
        kind = TraceCorruptError if damaged else StoreError
        raise kind(f"{path} cannot be read ({error}); check the disk and the limits of the process") from error


def _check_metadata(path: Path, metadata: Mapping[str, str], weights_id: str) -> None:
    try:
        stated = json.loads(metadata[METADATA_KEY])
        version, owner = stated["version"], stated["weights_id"]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise TraceCorruptError(f"{path} does not say which format and weights it is of") from error
    if version != SEGMENT_VERSION:
        raise StoreVersionError(
            f"{path} has format {version!r}, this package reads {SEGMENT_VERSION}. "
            "Use the package version that wrote it."
        )
    if owner != weights_id:
        raise TraceCorruptError(f"{path} belongs to the weights {owner}, not to {weights_id}")


def _digest(tensor: torch.Tensor) -> bytes:
    data = tensor.contiguous().view(torch.uint8).numpy().data if tensor.numel() else b""
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def _save(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
    """`save_file` (which lets other threads run while it writes) with its errors turned back into `OSError`."""
    try:
        save_file(tensors, path, metadata)
    except SafetensorError as error:
        found = re.search(r"\(os error (\d+)\)", str(error))
        if found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(path)) from error


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
