"""The factors of an event of Mamba2: A is a scalar for each head, B a sum of decayed outer products.

S_T = exp(G_T) S_0 + Σ_t exp(G_T − G_t) Δ_t x_t B_tᵀ with G_t = A Σ_{i<=t} Δ_i (Dao and Gu, arXiv 2405.21060).
"""

import torch

from v14.engram.factors import Factors, by_head


def factors(x: torch.Tensor, b: torch.Tensor, dt: torch.Tensor, a: torch.Tensor) -> Factors:
    """The factors, of write rank T and erase rank 0.

    x: `[T, N, P]`; b (the paper's B): `[T, G, K]`, G divides N; dt (Δ, behind its bias and softplus): `[T, N]`; a (A,
    negative): `[N]`.
    """
    keys = by_head(b, x.shape[1])
    dt = dt.float()
    steps = (dt.double() * a).mT
    until, whole = steps.cumsum(-1), steps.sum(-1)
    left = (whole[:, None] - until).exp().float()
    none = keys.new_empty(keys.shape[0], keys.shape[2], 0)
    return Factors(
        decay=whole.exp().float(),
        erase_left=none,
        erase_right=none,
        write_values=(dt[..., None] * x.float()).permute(1, 2, 0),
        write_keys=(left[..., None] * keys).mT,
    )
