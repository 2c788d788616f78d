"""Cutting an engram to a rank.

A factor pair stands for the matrix left · rightᵀ, and any pair with that product is as good. The best product of rank
r is the truncated singular value decomposition (Eckart and Young). Where r is not small it is found in full, through QR
decompositions of the two factors; where it is, by subspace iteration with a few columns more than asked (Halko,
Martinsson and Tropp, arXiv 0909.4061, algorithm 4.4), which touches the factors by products with thin matrices only:
as good to a percent, and exact where the matrix has no more rank than that.
"""

import torch

from v14.types import Engram

OVERSAMPLING = 8
ITERATIONS = 4


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
    thin = rank + OVERSAMPLING
    found = _thin_svd(left, right, thin) if 2 * thin <= min(num_rows, num_columns, known) else _full_svd(left, right)
    u, s, v = (tensor[..., :rank] for tensor in found)
    # Both factors get the root of each singular value: neither leaves the range of a narrow dtype.
    roots = s[..., None, :].sqrt()
    return u * roots, v * roots


def _full_svd(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """U, S, V of left · rightᵀ, all of it."""
    left_basis, left_core = torch.linalg.qr(left)
    right_basis, right_core = torch.linalg.qr(right)
    u, s, vh = torch.linalg.svd(left_core @ right_core.mT, full_matrices=False)
    return left_basis @ u, s, right_basis @ vh.mT


def _thin_svd(left: torch.Tensor, right: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """U, S, V of the leading `size` directions of left · rightᵀ; the last few of them are rough."""
    # One start for all: the same event always makes the same bytes.
    start = torch.randn(right.shape[-2], size, generator=torch.Generator().manual_seed(0)).to(right)
    basis = torch.linalg.qr(left @ (right.mT @ start))[0]
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(right @ (left.mT @ basis))[0]
        basis = torch.linalg.qr(left @ (right.mT @ basis))[0]
    right_basis, core = torch.linalg.qr(right @ (left.mT @ basis))
    v, s, uh = torch.linalg.svd(core, full_matrices=False)
    return basis @ uh.mT, s, right_basis @ v


def _eyes(like: torch.Tensor) -> torch.Tensor:
    size = like.shape[-2]
    return torch.eye(size, device=like.device).expand(*like.shape[:-2], size, size)


def _loss(exact: tuple[torch.Tensor, torch.Tensor], kept: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    exact_product, kept_product = (left.float() @ right.float().mT for left, right in (exact, kept))
    size = exact_product.flatten(2).norm(dim=2)
    lost = (exact_product - kept_product).flatten(2).norm(dim=2)
    return torch.where(size > 0, lost / size, lost)
