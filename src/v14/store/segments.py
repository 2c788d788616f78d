"""Segments: safetensors files, each written whole by one commit and never changed.

Tensors of an event are `<namespace>/<event id>.k` and `.v`, each `[L, T, H, D]` (letters in `v14.types`), and where its
trace has an engram, `.e.<field>` for each field of that. The file's metadata has one key, `v14`, so that equal traces
make equal bytes: format version and weights id, as JSON.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from v14.errors import StoreVersionError, TraceCorruptError
from v14.store.foundation import Blobs
from v14.store.header import Header, Place, damaged, read_header
from v14.store.pending import Key
from v14.store.spec import DTYPES, Part, Spec, digest
from v14.types import Engram, Trace

SEGMENT_VERSION = 1
METADATA_KEY = "v14"
MAX_HEADERS = 256
"""Segments whose headers are kept in memory."""


def tensor_names(namespace: str, event_id: str) -> tuple[str, str]:
    """Names of an event's keys and values; an id holds no `/`, so no two namespaces share one."""
    return f"{namespace}/{event_id}.k", f"{namespace}/{event_id}.v"


def engram_name(namespace: str, event_id: str, field: str) -> str:
    """Name of one field of an event's engram."""
    return f"{namespace}/{event_id}.e.{field}"


class Segments:
    """The segments of one store: traces in, traces out, every byte of them checked."""

    def __init__(self, blobs: Blobs, weights_id: str) -> None:
        self.blobs, self._weights_id = blobs, weights_id
        self._headers: OrderedDict[str, Header] = OrderedDict()
        self._lock = threading.Lock()

    def write(self, name: str, traces: Mapping[Key, Trace]) -> None:
        """Write the traces to a segment, whole or not at all. Raises `OSError`."""
        tensors: dict[str, torch.Tensor] = {}
        storages: set[int] = set()
        for key, trace in traces.items():
            for tensor_name, tensor in _named(key, trace):
                # safetensors refuses tensors that share memory
                shared = tensor.untyped_storage().data_ptr() in storages
                tensors[tensor_name] = tensor.contiguous().clone() if shared else tensor.contiguous()
                storages.add(tensor.untyped_storage().data_ptr())
        self.forget(name)
        stated = json.dumps({"version": SEGMENT_VERSION, "weights_id": self._weights_id})
        self.blobs.write(name, tensors, {METADATA_KEY: stated})

    def trace(self, name: str, key: Key, spec: Spec) -> Trace:
        """The trace of an event. Raises `TraceCorruptError`, `StoreVersionError`, `StoreError`."""
        parts = {} if spec.engram is None else spec.engram
        names = [*tensor_names(*key), *(engram_name(*key, field) for field in parts)]
        places = [self._place(name, tensor_name) for tensor_name in names]
        data = self.blobs.read(name, [(place.start, place.end) for place in places])
        keys, values, *engram = (
            self._tensor(name, place.dtype, place.shape, part) for place, part in zip(places, data, strict=True)
        )
        for half, tensor in enumerate((keys, values)):
            self._check(name, names[half], spec, half, range(spec.shape[0]), tensor)
        for tensor_name, part, tensor in zip(names[2:], parts.values(), engram, strict=True):
            self._check_part(name, tensor_name, part, tensor)
        fields = dict(zip(parts, engram, strict=True))
        return Trace(keys=keys, values=values, engram=Engram(**fields) if fields else None)

    def keys(self, name: str, key: Key, spec: Spec, slots: Sequence[int]) -> torch.Tensor:
        """Keys `[len(slots), T, H, D]` of some layers; nothing else is read. Raises as `trace`."""
        tensor_name, _ = tensor_names(*key)
        place = self._place(name, tensor_name)
        layer_bytes = (place.end - place.start) // max(1, place.shape[0])
        starts = [place.start + slot * layer_bytes for slot in slots]
        data = self.blobs.read(name, [(start, start + layer_bytes) for start in starts])
        layers = [self._tensor(name, place.dtype, place.shape[1:], part) for part in data]
        keys = torch.stack(layers) if layers else torch.empty((0, *place.shape[1:]), dtype=place.dtype)
        self._check(name, tensor_name, spec, 0, slots, keys, shape=place.shape)
        return keys

    def forget(self, name: str) -> None:
        """Ask for a segment's header again when it is read next."""
        with self._lock:
            self._headers.pop(name, None)

    def _place(self, name: str, tensor_name: str) -> Place:
        with self._lock:
            header = self._headers.get(name)
        if header is None:
            header = read_header(self.blobs, name)
            _check_metadata(self.blobs.where(name), header.metadata, self._weights_id)
            with self._lock:
                self._headers[name] = header
                while len(self._headers) > MAX_HEADERS:
                    self._headers.popitem(last=False)
        if tensor_name not in header.places:
            raise damaged(self.blobs, name, f"it does not hold {tensor_name}")
        return header.places[tensor_name]

    def _tensor(self, name: str, dtype: torch.dtype, shape: tuple[int, ...], data: bytes | memoryview) -> torch.Tensor:
        out = torch.empty(shape, dtype=dtype)
        if memoryview(data).nbytes != out.nbytes:
            raise damaged(self.blobs, name, "it ends too early")
        if out.numel():
            out.view(-1).view(torch.uint8).numpy()[:] = np.frombuffer(data, np.uint8)
        return out

    def _check(
        self, name: str, tensor_name: str, spec: Spec, half: int, slots: Sequence[int], layers: torch.Tensor,
        shape: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """Layers `[len(slots), T, H, D]` of a tensor of `shape` (theirs, if not given); half 0 is keys, 1 is values."""
        shape = tuple(layers.shape) if shape is None else shape
        where = f"{self.blobs.where(name)}: {tensor_name}"
        if shape != spec.shape:
            raise TraceCorruptError(f"{where} has shape {list(shape)}, the catalog says {list(spec.shape)}")
        for slot, layer in zip(slots, layers, strict=True):
            if layer.dtype != DTYPES[spec.dtype] or not spec.check(layer, half * spec.shape[0] + slot):
                raise TraceCorruptError(f"{where}, layer {slot}, is not what was stored")

    def _check_part(self, name: str, tensor_name: str, part: Part, tensor: torch.Tensor) -> None:
        where = f"{self.blobs.where(name)}: {tensor_name}"
        if str(tensor.dtype) != f"torch.{part.dtype}" or tuple(tensor.shape) != part.shape:
            raise TraceCorruptError(f"{where} is {tensor.dtype} {list(tensor.shape)}, the catalog says {part}")
        if digest(tensor) != part.digest:
            raise TraceCorruptError(f"{where} is not what was stored")


def _named(key: Key, trace: Trace) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a trace under their names."""
    yield from zip(tensor_names(*key), (trace.keys, trace.values), strict=True)
    if trace.engram is not None:
        for field, tensor in trace.engram.tensors().items():
            yield engram_name(*key, field), tensor


def _check_metadata(path: str, metadata: Mapping[str, str], weights_id: str) -> None:
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
