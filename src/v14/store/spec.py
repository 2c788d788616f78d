"""What the catalog knows about a trace before it is read: dtypes, shapes and digests of its tensors."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from v14.codecs.form import NATIVE, Form
from v14.types import Trace

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
        return cls(dtype=dtype_name(tensor), shape=tuple(tensor.shape), digest=digest(tensor))

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensor."""
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What the catalog knows about a trace: dtype name, shape `(L, T, H, D)`, digests of keys then values by layer.

    `engram` has the parts by field name, and is None where the trace has no engram. `form` is how it lies on disk;
    digests are of the bytes there.
    """

    dtype: str
    shape: tuple[int, ...]
    digests: bytes
    engram: Mapping[str, Part] | None = None
    form: Form = NATIVE

    @classmethod
    def of(cls, trace: Trace) -> "Spec":
        """The spec of a trace that lies on disk as it is. Raises `ValueError` for a dtype that segments do not hold."""
        digests = b"".join(digest(layer) for tensor in (trace.keys, trace.values) for layer in tensor)
        parts = None
        if trace.engram is not None:
            parts = {name: Part.of(tensor) for name, tensor in trace.engram.tensors().items()}
        return cls(dtype=dtype_name(trace.keys), shape=tuple(trace.keys.shape), digests=digests, engram=parts)

    @property
    def layer_digests(self) -> Sequence[bytes]:
        """`digests` one by one."""
        return [self.digests[start : start + DIGEST_BYTES] for start in range(0, len(self.digests), DIGEST_BYTES)]


def check_dtypes(trace: Trace) -> None:
    """Raise `ValueError` where a trace has a dtype that segments do not hold."""
    for tensor in (trace.keys, *(trace.engram.tensors().values() if trace.engram else ())):
        dtype_name(tensor)


def digest(tensor: torch.Tensor) -> bytes:
    """The first bytes of SHA-256 of a tensor's content."""
    data = tensor.contiguous().view(torch.uint8).numpy().data if tensor.numel() else b""
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def dtype_name(tensor: torch.Tensor) -> str:
    """The catalog's word for a dtype. Raises `ValueError` for one that segments do not hold."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"a trace of dtype {name} cannot be stored; {', '.join(DTYPES)} can")
    return name
