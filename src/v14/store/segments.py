"""Segments: safetensors files, each written whole by one commit and never changed.

Tensors of an event are `<namespace>/<event id>.k` and `.v`, and where its trace has an engram, `.e.<field>` for each
field of that. A trace that lies there as it was computed has keys and values `[L, T, H, D]` (letters in `v14.types`);
in any other form (`v14.codecs.form`) each tensor is a run of uint8, its rows one behind the other (`packing.py`). The
file's metadata has one key, `v14`, so that equal traces make equal bytes: format version, weights id, and where
records are sealed the segment's data key, sealed itself, as JSON.
"""

import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from v14.codecs.form import NATIVE, Form
from v14.errors import StoreKeyError, StoreVersionError, TraceCorruptError
from v14.store.foundation import Blobs
from v14.store.header import Header, Place, damaged, read_header
from v14.store.packing import KEYS, VALUES, Packed, Rows, fitting, key_rows, pack, row_digests, row_sizes, unpack_keys
from v14.store.pending import Key
from v14.store.seal import Cipher, context
from v14.store.spec import DTYPES, Spec, digest
from v14.store.vault import Vault
from v14.types import Trace

SEGMENT_VERSION = 1
SEALED_VERSION = 2
"""Of a segment whose records are sealed."""
METADATA_KEY = "v14"
MAX_HEADERS = 256
"""Segments whose headers are kept in memory."""
NOTE = "r"
"""The part with an event's note (`v14.store.notes`), `[B / 8]` int64: safetensors puts these first in a file."""


def event_key(tensor_name: str) -> Key:
    """(namespace, event id) that a tensor belongs to."""
    namespace, _, rest = tensor_name.rpartition("/")
    return namespace, rest.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is kept in memory of a segment."""

    header: Header
    cipher: Cipher | None


def tensor_names(namespace: str, event_id: str) -> tuple[str, str]:
    """Names of an event's keys and values; an id holds no `/`, so no two namespaces share one."""
    return f"{namespace}/{event_id}.{KEYS}", f"{namespace}/{event_id}.{VALUES}"


def engram_name(namespace: str, event_id: str, field: str) -> str:
    """Name of one field of an event's engram."""
    return f"{namespace}/{event_id}.e.{field}"


class Segments:
    """The segments of one store: traces in, traces out, every byte of them checked."""

    def __init__(self, blobs: Blobs, weights_id: str, vault: Vault | None = None) -> None:
        """With a `vault`, everything that is written is sealed."""
        self.blobs, self._weights_id, self._vault = blobs, weights_id, vault
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._lock = threading.Lock()

    def write(
        self, name: str, traces: Mapping[Key, Trace | Packed], form: Form = NATIVE,
        note: Callable[[Key, Spec], bytes] | None = None,
    ) -> dict[Key, Spec]:  # fmt: skip
        """Write the traces to a segment, whole or not at all; what the catalog is to know of each. Raises `OSError`.

        `form` is the one wanted of traces; one that it does not fit comes nearest to it. What is `Packed` stays so.
        `note` gives what is to lie beside a trace (`v14.store.notes`).
        """
        stated: dict[str, object] = {"version": SEGMENT_VERSION, "weights_id": self._weights_id}
        cipher = None
        if self._vault is not None:
            key_text, cipher = self._vault.new_segment_key()
            stated |= {"version": SEALED_VERSION, "key": key_text}
        tensors: dict[str, torch.Tensor] = {}
        specs: dict[Key, Spec] = {}
        storages: set[int] = set()
        for key, trace in traces.items():
            specs[key], parts = self._parts(key, trace, form, cipher)
            for part, tensor in parts:
                # safetensors refuses tensors that share memory
                shared = tensor.untyped_storage().data_ptr() in storages
                tensors[_name(key, part)] = tensor.contiguous().clone() if shared else tensor.contiguous()
                storages.add(tensor.untyped_storage().data_ptr())
            if note is not None:
                text = note(key, specs[key])
                tensors[_name(key, NOTE)] = _tensor(text.ljust(-(-len(text) // 8) * 8, b"\0")).view(torch.int64)
        self.forget(name)
        self.blobs.write(name, tensors, {METADATA_KEY: json.dumps(stated)})
        return specs

    def trace(self, name: str, key: Key, spec: Spec) -> Trace:
        """The trace of an event. Raises `TraceCorruptError`, `StoreVersionError`, `StoreError`, and
        `TraceNotKeptError` where not all of it was kept."""
        return self.read(name, key, spec).trace()

    def read(self, name: str, key: Key, spec: Spec) -> Packed:
        """What was kept of a trace, checked and opened, in its form. Raises as `trace`, but `TraceNotKeptError`."""
        sizes = row_sizes(spec)
        places = [self._place(name, key, part, spec, sum(sizes[part])) for part in sizes]
        data = self.blobs.read(name, [(place.start, place.end) for place in places])
        rows = {
            part: self._rows(name, key, part, spec, range(len(sizes[part])), self._split(name, sizes[part], one))
            for part, one in zip(sizes, data, strict=True)
        }
        return Packed.of(spec, rows)

    def keys(self, name: str, key: Key, spec: Spec, slots: Sequence[int]) -> torch.Tensor:
        """Keys `[len(slots), T, H, D]` of some layers; nothing else is read. Raises as `trace`."""
        numbers, sizes = key_rows(spec, slots), row_sizes(spec)[KEYS]
        place = self._place(name, key, KEYS, spec, sum(sizes))
        starts = [place.start, *itertools.accumulate(sizes, initial=place.start)][1:]
        data = self.blobs.read(name, [(starts[number], starts[number] + sizes[number]) for number in numbers])
        found = [
            row for number, one in zip(numbers, data, strict=True) for row in self._split(name, [sizes[number]], one)
        ]
        return unpack_keys(spec, slots, self._rows(name, key, KEYS, spec, numbers, found))

    def rewrite(self, name: str, new_name: str, keys: Collection[Key]) -> set[Key]:
        """Write a segment with the events `keys` of another one, byte for byte; those that could be read.

        What is sealed stays so under the same data key. None of them: no segment is written. Raises
        `TraceCorruptError` where nothing can be read, and `OSError`.
        """
        header = read_header(self.blobs, name)
        names: dict[Key, list[str]] = {}
        for tensor_name in header.places:
            names.setdefault(event_key(tensor_name), []).append(tensor_name)
        tensors: dict[str, torch.Tensor] = {}
        read = set()
        for key in names.keys() & set(keys):
            places = [header.places[tensor_name] for tensor_name in names[key]]
            data = self.blobs.read(name, [(place.start, place.end) for place in places])
            if all(
                memoryview(part).nbytes == place.end - place.start for part, place in zip(data, places, strict=True)
            ):
                for tensor_name, place, part in zip(names[key], places, data, strict=True):
                    tensors[tensor_name] = _typed(part, place)
                read.add(key)
        if tensors:
            self.blobs.write(new_name, tensors, header.metadata)
        return read

    def forget(self, name: str) -> None:
        """Ask for a segment's header again when it is read next."""
        with self._lock:
            self._known.pop(name, None)

    def _parts(
        self, key: Key, trace: Trace | Packed, form: Form, cipher: Cipher | None
    ) -> tuple[Spec, Iterator[tuple[str, torch.Tensor]]]:
        """What the catalog is to know of a trace, and its tensors by part."""
        if isinstance(trace, Trace):
            form = fitting(trace, form)
            if form == NATIVE and cipher is None:
                return Spec.of(trace), _plain(trace)
            trace = pack(trace, form)
        if trace.form == NATIVE and cipher is None:
            plain = trace.trace()
            return Spec.of(plain), _plain(plain)
        rows = trace.rows if cipher is None else self._sealed(key, trace, cipher)
        runs = ((part, torch.cat([torch.empty(0, dtype=torch.uint8), *one])) for part, one in rows.items())
        return trace.spec(rows, sealed=cipher is not None), runs

    def _sealed(self, key: Key, packed: Packed, cipher: Cipher) -> Rows:
        form = replace(packed.form, sealed=True)
        return {
            part: [
                _tensor(cipher.seal(row.numpy(), self._what(key, part, number, packed.dtype, packed.shape, form)))
                for number, row in enumerate(rows)
            ]
            for part, rows in packed.rows.items()
        }

    def _place(self, name: str, key: Key, part: str, spec: Spec, num_bytes: int) -> Place:
        """Where a part lies, if it has the shape that the catalog says."""
        header = self._segment(name).header
        tensor_name = _name(key, part)
        if tensor_name not in header.places:
            raise damaged(self.blobs, name, f"it does not hold {tensor_name}")
        place = header.places[tensor_name]
        shape: tuple[int, ...] = (num_bytes,)
        dtype = torch.uint8
        if spec.form == NATIVE:
            engram = None if part in (KEYS, VALUES) else (spec.engram or {})[part.removeprefix("e.")]
            shape, dtype = (engram or spec).shape, DTYPES[(engram or spec).dtype]
        where = f"{self.blobs.where(name)}: {tensor_name}"
        if place.shape != shape:
            raise TraceCorruptError(f"{where} has shape {list(place.shape)}, the catalog says {list(shape)}")
        if place.dtype != dtype:
            raise TraceCorruptError(f"{where} is not what was stored: it is {place.dtype}, the catalog says {dtype}")
        return place

    def _split(self, name: str, sizes: Sequence[int], data: bytes | memoryview) -> Sequence[torch.Tensor]:
        if memoryview(data).nbytes != sum(sizes):
            raise damaged(self.blobs, name, "it ends too early")
        return torch.split(_tensor(data), list(sizes)) if sizes else ()

    def _rows(
        self, name: str, key: Key, part: str, spec: Spec, numbers: Sequence[int], rows: Sequence[torch.Tensor]
    ) -> Sequence[torch.Tensor]:
        """Rows of a part, checked against their digests and opened."""
        digests = row_digests(spec, part)
        for number, row in zip(numbers, rows, strict=True):
            if number >= len(digests) or digest(row) != digests[number]:
                layer = f", layer {number}," if part in (KEYS, VALUES) else ""
                raise TraceCorruptError(f"{self.blobs.where(name)}: {_name(key, part)}{layer} is not what was stored")
        if not spec.form.sealed:
            return rows
        cipher = self._segment(name).cipher
        if cipher is None:
            raise damaged(self.blobs, name, "its records are sealed and it states no key")
        return [
            _tensor(cipher.open(row.numpy(), self._what(key, part, number, spec.dtype, spec.shape, spec.form)))
            for number, row in zip(numbers, rows, strict=True)
        ]

    def _what(self, key: Key, part: str, number: int, dtype: str, shape: tuple[int, ...], form: Form) -> bytes:
        """What a sealed row is of."""
        return context(self._weights_id, *key, part, number, dtype, shape, form.text)

    def _segment(self, name: str) -> Known:
        with self._lock:
            known = self._known.get(name)
        if known is None:
            header = read_header(self.blobs, name)
            stated = _stated(self.blobs.where(name), header.metadata, self._weights_id)
            cipher = None
            if stated["version"] == SEALED_VERSION:
                if self._vault is None:
                    raise StoreKeyError(f"{self.blobs.where(name)} is encrypted; set SGLANG_V14_KEY_FILE to its key")
                cipher = self._vault.segment_cipher(stated.get("key"))
            known = Known(header=header, cipher=cipher)
            with self._lock:
                self._known[name] = known
                while len(self._known) > MAX_HEADERS:
                    self._known.popitem(last=False)
        return known


def _name(key: Key, part: str) -> str:
    return f"{key[0]}/{key[1]}.{part}"


def _plain(trace: Trace) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a trace by part."""
    yield KEYS, trace.keys
    yield VALUES, trace.values
    if trace.engram is not None:
        for field, tensor in trace.engram.tensors().items():
            yield f"e.{field}", tensor


def _tensor(data: bytes | memoryview) -> torch.Tensor:
    """A copy of bytes as `[B]` uint8."""
    out = torch.empty(memoryview(data).nbytes, dtype=torch.uint8)
    out.numpy()[:] = np.frombuffer(data, np.uint8)
    return out


def _typed(data: bytes | memoryview, place: Place) -> torch.Tensor:
    """A copy of bytes as the tensor that lay at `place`."""
    out = torch.empty(place.shape, dtype=place.dtype)
    if out.numel():
        out.view(-1).view(torch.uint8).copy_(_tensor(data))
    return out


def _stated(path: str, metadata: Mapping[str, str], weights_id: str) -> Mapping[str, object]:
    try:
        stated = json.loads(metadata[METADATA_KEY])
        version, owner = stated["version"], stated["weights_id"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise TraceCorruptError(f"{path} does not say which format and weights it is of") from error
    if version not in (SEGMENT_VERSION, SEALED_VERSION):
        raise StoreVersionError(
            f"{path} has format {version!r}, this package reads {SEGMENT_VERSION} and {SEALED_VERSION}. "
            "Use the package version that wrote it."
        )
    if owner != weights_id:
        raise TraceCorruptError(f"{path} belongs to the weights {owner}, not to {weights_id}")
    return dict(stated)
