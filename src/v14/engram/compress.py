"""Cutting an engram to a rank.

A factor pair stands for the matrix left · rightᵀ, and any pair with that product is as good. The best product of rank
r is the truncated singular value decomposition (Eckart and Young), found through QR decompositions of the two factors:
its cost follows the factors' rank, which is an event's length at most.
"""

import torch

from v14.types import Engram


def compress(engram: Engram, rank: int, *, dtype: torch.dtype | None = None) -> Engram:
    """The engram with each head's erasing and writing part at rank `rank` at most, and stored no larger than need be.

    Decay and convolution tail stay as they are. A rank that the parts do not exceed changes no product. `dtype` is that
    of the factors (default: as they were); the arithmetic is fp32.
    """
    dtype = dtype or engram.write_keys.dtype
    erase_left, erase_right = _cut(engram.erase_left, engram.erase_right, rank)
    write_values, write_keys = _cut(engram.write_values, engram.write_keys, rank)
    return Engram(
        decay=engram.decay,
        erase_left=erase_left.to(dtype),
        erase_right=erase_right.to(dtype),
        write_values=write_values.to(dtype),
        write_keys=write_keys.to(dtype),
        tail=engram.tail,
    )


def compression_error(exact: Engram, kept: Engram) -> tuple[torch.Tensor, torch.Tensor]:
    """What compressing lost of the erasing and of the writing parts: for each head, `[R, N]`, the Frobenius norm of the
    difference of the products over that of the exact product; 0 where there was nothing to lose."""
    return (
        _loss((exact.erase_left, exact.erase_right), (kept.erase_left, kept.erase_right)),
        _loss((exact.write_values, exact.write_keys), (kept.write_values, kept.write_keys)),
    )


def _cut(left: torch.Tensor, right: torch.Tensor, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Factors `[..., m, s]` and `[..., n, s]` as `[..., m, r]` and `[..., n, r]`, r <= rank."""
    num_rows, num_columns, known = left.shape[-2], right.shape[-2], left.shape[-1]
    if known <= min(rank, num_rows, num_columns):
        return left, right
    left, right = left.float(), right.float()
    if rank >= min(num_rows, num_columns):
        # No rank is lost, only columns: the product itself beside an identity, without decomposing anything.
        if num_columns <= num_rows:
            return left @ right.mT, _eyes(right)
        return _eyes(left), right @ left.mT
    left_basis, left_core = torch.linalg.qr(left)
    right_basis, right_core = torch.linalg.qr(right)
    u, s, vh = torch.linalg.svd(left_core @ right_core.mT, full_matrices=False)
    # Both factors get the root of each singular value: neither leaves the range of a narrow dtype.
    roots = s[..., None, :rank].sqrt()
    return left_basis @ (u[..., :rank] * roots), right_basis @ (vh.mT[..., :rank] * roots)


def _eyes(like: torch.Tensor) -> torch.Tensor:
    size = like.shape[-2]
    return torch.eye(size, device=like.device).expand(*like.shape[:-2], size, size)


def _loss(exact: tuple[torch.Tensor, torch.Tensor], kept: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    exact_product, kept_product = (left.float() @ right.float().mT for left, right in (exact, kept))
    size = exact_product.flatten(2).norm(dim=2)
    lost = (exact_product - kept_product).flatten(2).norm(dim=2)
    return torch.where(size > 0, lost / size, lost)
