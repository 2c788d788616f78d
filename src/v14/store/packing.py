"""A trace as parts, and every part as rows of bytes: what is written, digested, sealed and read by itself.

part         rows                                            plain trace (`Form()`)
k            the keys of each kept layer                     one tensor `[L, T, H, D]`, whose layers are the rows
v            the values of each layer, none with `only`      the same
e.<field>    one, the field's bytes                          the field
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from v14.codecs.form import Form
from v14.codecs.layers import decode_layers, encode_layers, row_bytes, smaller
from v14.config import Codec
from v14.errors import TraceNotKeptError
from v14.store.seal import OVERHEAD_BYTES
from v14.store.spec import DTYPES, Part, Spec, digest, dtype_name
from v14.types import Engram, Trace

KEYS, VALUES = "k", "v"
ENGRAM = "e."

Rows = Mapping[str, Sequence[torch.Tensor]]
"""By part, `[B]` uint8 each."""


def fitting(trace: Trace, wanted: Form) -> Form:
    """The wanted form, or the nearest that the trace can have: as computed where quantising gains or keeps nothing."""
    if wanted.codec == "native" or smaller(trace.keys, trace.values, wanted.codec):
        return wanted
    return wanted.native()


@dataclass(frozen=True, kw_only=True, eq=False)
class Packed:
    """A trace in a form, its rows open: what can be written, sealed or not, without being encoded once more.

    `engram` has dtype name and shape of each field, None where there is none.
    """

    dtype: str
    shape: tuple[int, ...]
    form: Form
    rows: Rows
    engram: Mapping[str, tuple[str, tuple[int, ...]]] | None = None

    @classmethod
    def of(cls, spec: Spec, rows: Rows) -> "Packed":
        """What was read, with its rows opened."""
        engram = None if spec.engram is None else {name: (p.dtype, p.shape) for name, p in spec.engram.items()}
        form = replace(spec.form, sealed=False)
        return cls(dtype=spec.dtype, shape=spec.shape, form=form, rows=rows, engram=engram)

    def spec(self, rows: Rows, *, sealed: bool) -> Spec:
        """What the catalog is to know where these rows, those of this trace, lie on disk, `sealed` or not."""
        engram = None
        if self.engram is not None:
            engram = {
                field: Part(dtype=dtype, shape=shape, digest=digest(rows[ENGRAM + field][0]))
                for field, (dtype, shape) in self.engram.items()
            }
        digests = b"".join(digest(row) for part in (KEYS, VALUES) for row in rows.get(part, ()))
        form = replace(self.form, sealed=sealed)
        return Spec(dtype=self.dtype, shape=self.shape, digests=digests, engram=engram, form=form)

    def trace(self) -> Trace:
        """The trace. Raises `TraceNotKeptError` where only voters' keys were kept."""
        if self.form.only is not None:
            raise TraceNotKeptError("only the voters' keys of this event were kept: it can be read again, not placed")
        num_layers, *layer = self.shape
        of_layer, dtype = (layer[0], layer[1], layer[2]), DTYPES[self.dtype]
        keys = decode_layers(self.rows[KEYS], _key_codecs(self.form, range(num_layers)), "keys", of_layer, dtype)
        values = decode_layers(self.rows[VALUES], [self.form.codec] * num_layers, "values", of_layer, dtype)
        return Trace(keys=keys, values=values, engram=Engram(**dict(self._fields())) if self.engram else None)

    def _fields(self) -> Iterator[tuple[str, torch.Tensor]]:
        for field, (dtype, shape) in (self.engram or {}).items():
            [row] = self.rows[ENGRAM + field]
            tensor = torch.empty(shape, dtype=DTYPES[dtype])
            if tensor.numel():
                tensor.view(-1).view(torch.uint8).copy_(row)
            yield field, tensor


def pack(trace: Trace, form: Form) -> Packed:
    """A trace in a form (`fitting`)."""
    slots = list(form.key_slots(trace.keys.shape[0]))
    rows = {KEYS: encode_layers(trace.keys[slots], _key_codecs(form, slots), "keys")}
    engram = None
    if form.only is None:
        rows[VALUES] = encode_layers(trace.values, [form.codec] * len(trace.values), "values")
        if trace.engram is not None:
            fields = trace.engram.tensors()
            rows |= {ENGRAM + field: [_raw(tensor)] for field, tensor in fields.items()}
            engram = {field: (dtype_name(tensor), tuple(tensor.shape)) for field, tensor in fields.items()}
    return Packed(
        dtype=dtype_name(trace.keys),
        shape=tuple(trace.keys.shape),
        form=replace(form, sealed=False),
        rows=rows,
        engram=engram,
    )


def row_sizes(spec: Spec) -> Mapping[str, Sequence[int]]:
    """Bytes of every row on disk, by part. Raises `TraceCorruptError` for a spec that is none."""
    num_layers, *shape = spec.shape
    layer = (shape[0], shape[1], shape[2])
    dtype, form = DTYPES[spec.dtype], spec.form
    codecs = _key_codecs(form, form.key_slots(num_layers))
    sizes = {KEYS: [row_bytes(codec, "keys", layer, dtype) for codec in codecs]}
    if form.only is None:
        sizes[VALUES] = [row_bytes(form.codec, "values", layer, dtype)] * num_layers
    sizes |= {ENGRAM + field: [part.num_bytes] for field, part in (spec.engram or {}).items()}
    sealed = OVERHEAD_BYTES if form.sealed else 0
    return {part: [size + sealed for size in rows] for part, rows in sizes.items()}


def row_digests(spec: Spec, part: str) -> Sequence[bytes]:
    """What the rows of a part must digest to."""
    if part.startswith(ENGRAM):
        return [(spec.engram or {})[part.removeprefix(ENGRAM)].digest]
    num_keys = len(spec.form.key_slots(spec.shape[0]))
    return spec.layer_digests[:num_keys] if part == KEYS else spec.layer_digests[num_keys:]


def key_rows(spec: Spec, slots: Sequence[int]) -> Sequence[int]:
    """Places of some layers among the rows of keys. Raises `TraceNotKeptError` where one of them was not kept."""
    kept = spec.form.key_slots(spec.shape[0])
    missing = [slot for slot in slots if slot not in kept]
    if missing:
        raise TraceNotKeptError(f"of this event only keys of the layers {list(kept)} were kept, not of {missing}")
    return [kept.index(slot) for slot in slots]


def unpack_keys(spec: Spec, slots: Sequence[int], rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Keys `[len(slots), T, H, D]` of opened rows."""
    _, num_tokens, num_heads, dim = spec.shape
    layer = num_tokens, num_heads, dim
    return decode_layers(rows, _key_codecs(spec.form, slots), "keys", layer, DTYPES[spec.dtype])


def _key_codecs(form: Form, slots: Sequence[int]) -> list[Codec]:
    return [form.key_codec(slot) for slot in slots]


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.contiguous().view(-1)
    return flat.view(torch.uint8) if flat.numel() else torch.empty(0, dtype=torch.uint8)
