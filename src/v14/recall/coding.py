"""How voter keys are kept: as they are, in bfloat16, or in 8 bits with a scale for each token and row.

In 8 bits keys are first centred and turned. A mean that all keys of a row share says nothing about any of them but
takes up most of the range; what it adds to every score is taken off the context's instead, which is exact. An
orthogonal turn, done to queries and keys alike, spreads what stands out in few channels over all. Together they halve
the error of the best votes (LOG.md, "voter keys in 8 bits, and two stages").

Shapes: U rows of voter keys, T tokens, D dimension of a head.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch

KeyForm = Literal["float32", "bfloat16", "int8"]

LEAST_SCALE = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Code:
    """A form on a device; `centre` `[U, D]` fp32 is None for zeros. Only int8 centres and turns."""

    form: KeyForm
    device: torch.device
    centre: torch.Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Of the kept keys."""
        dtype: torch.dtype = getattr(torch, self.form)
        return dtype

    def encode(self, keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Keys `[U, T, D]` as they are kept; for int8 with the scales `[U, T]` in fp16 that multiply them."""
        if self.form != "int8":
            return keys.to(self.dtype), None
        keys = keys.float()
        if self.centre is not None:
            keys = keys - self.centre[:, None]
        keys = keys @ turn(keys.shape[-1], self.device)
        # Rounded first, so that what is kept is what the keys were divided by.
        scales = (keys.abs().amax(-1) / 127).clamp_(min=LEAST_SCALE).half()
        return (keys / scales[..., None].float()).round_().clamp_(-127, 127).to(torch.int8), scales

    def decode(self, coded: torch.Tensor, scales: torch.Tensor | None) -> torch.Tensor:
        """The keys in fp32."""
        if scales is None:
            return coded.float()
        keys = (coded.float() * scales[..., None].float()) @ turn(coded.shape[-1], self.device).T
        return keys if self.centre is None else keys + self.centre[:, None]


@lru_cache(maxsize=8)
def turn(dim: int, device: torch.device) -> torch.Tensor:
    """An orthogonal `[D, D]` in fp32, the same in every process."""
    random = torch.randn(dim, dim, generator=torch.Generator().manual_seed(14), dtype=torch.float64)
    turned: torch.Tensor = torch.linalg.qr(random).Q.float()
    return turned.to(device)
