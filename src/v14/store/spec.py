"""What the catalog knows about a trace before it is read: dtypes, shapes and digests of its tensors."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch

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
        return cls(dtype=_dtype_name(tensor), shape=tuple(tensor.shape), digest=digest(tensor))


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
        digests = b"".join(digest(layer) for tensor in (trace.keys, trace.values) for layer in tensor)
        parts = None
        if trace.engram is not None:
            parts = {name: Part.of(tensor) for name, tensor in trace.engram.tensors().items()}
        return cls(dtype=_dtype_name(trace.keys), shape=tuple(trace.keys.shape), digests=digests, engram=parts)

    def check(self, layer: torch.Tensor, place: int) -> bool:
        """Whether a layer's keys (place = slot) or values (place = L + slot), `[T, H, D]`, are what was stored."""
        return digest(layer) == self.digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]


def check_dtypes(trace: Trace) -> None:
    """Raise `ValueError` where a trace has a dtype that segments do not hold."""
    for tensor in (trace.keys, *(trace.engram.tensors().values() if trace.engram else ())):
        _dtype_name(tensor)


def digest(tensor: torch.Tensor) -> bytes:
    """The first bytes of SHA-256 of a tensor's content."""
    data = tensor.contiguous().view(torch.uint8).numpy().data if tensor.numel() else b""
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def _dtype_name(tensor: torch.Tensor) -> str:
    """The catalog's word for a dtype. Raises `ValueError` for one that segments do not hold."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"a trace of dtype {name} cannot be stored; {', '.join(DTYPES)} can")
    return name
