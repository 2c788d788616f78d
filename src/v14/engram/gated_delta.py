"""The factors of an event of a gated delta rule, in WY form: one triangular system for each of A and B.

With G_t = Σ_{i<=t} log α_i, the state behind token t is S_t = α_t S_{t-1} + u_t k_tᵀ, where

    u_t = β_t (v_t − exp(G_t) S_0 k_t − Σ_{i<t} exp(G_t − G_i) (k_iᵀ k_t) u_i)

is linear in the values and in S_0. The part of the values gives B = Σ_t exp(G_T − G_t) u_t k_tᵀ. In the part of S_0 the
decays cancel, w_t = β_t (k_t − Σ_{i<t} (k_iᵀ k_t) w_i), and A = exp(G_T) (I − Σ_t w_t k_tᵀ). Only decays of later
against earlier tokens occur, so nothing is divided by a product of decays that may have vanished.
(WY form: Yang et al., arXiv 2406.06484, section 3.2, and 2412.06464, section 3.3.)
"""

import torch

from v14.engram.factors import Factors, by_head

L2_EPS = 1e-6
"""Under the root of a key's norm, as Transformers and flash-linear-attention have it."""


def normalise(keys: torch.Tensor) -> torch.Tensor:
    """Keys `[..., K]` of length one, fp32."""
    keys = keys.float()
    return keys * (keys.square().sum(-1, keepdim=True) + L2_EPS).rsqrt()


def factors(keys: torch.Tensor, values: torch.Tensor, log_decay: torch.Tensor, beta: torch.Tensor) -> Factors:
    """The factors, of rank T, from keys `[T, G, K]` (normalised), values `[T, N, P]`, log_decay and beta `[T, N]`.

    G divides N: neighbouring heads share keys.
    """
    keys = by_head(keys, values.shape[1])
    beta = beta.float().mT[..., None]
    # Sums in fp64: behind a strong decay, the weak ones that follow would drown in the rounding of the sum.
    steps = log_decay.double().mT
    until, whole = steps.cumsum(-1), steps.sum(-1)
    # The upper half would overflow; its exponents are cut off before they are taken.
    between = (until[:, :, None] - until[:, None, :]).tril().exp().float()
    overlap = (beta * (keys @ keys.mT)).tril(-1)
    erase = torch.linalg.solve_triangular(overlap, beta * keys, upper=False, unitriangular=True)
    write = torch.linalg.solve_triangular(
        overlap * between, beta * values.float().transpose(0, 1), upper=False, unitriangular=True
    )
    left = (whole[:, None] - until).exp().float()
    return Factors(
        decay=whole.exp().float(),
        erase_left=erase.mT,
        erase_right=keys.mT,
        write_values=write.mT,
        write_keys=(left[..., None] * keys).mT,
    )
