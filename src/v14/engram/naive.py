"""States token by token and engrams as whole matrices, in plain fp32: what the rest of this room is checked against.

Shapes of one layer: T tokens, N heads, G groups of heads that share keys, K key and P value dimension. A state is
`[N, P, K]`.
"""

import torch

from v14.geometry import RecurrentStack
from v14.types import Engram


def gated_delta(
    state: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, log_decay: torch.Tensor, beta: torch.Tensor
) -> torch.Tensor:
    """The state behind T tokens of the gated delta rule, S_t = α_t S_{t-1} (I − β_t k_t k_tᵀ) + β_t v_t k_tᵀ.

    keys: `[T, G, K]`, normalised; values: `[T, N, P]`; log_decay (log α) and beta: `[T, N]`. Formula: Yang et al.,
    Gated Delta Networks, arXiv 2412.06464, equation 10; Transformers' `torch_recurrent_gated_delta_rule` keeps Sᵀ.
    """
    num_heads = values.shape[1]
    eye = torch.eye(keys.shape[2])
    state = state.float().clone()
    for t in range(keys.shape[0]):
        for n in range(num_heads):
            k = keys[t, n * keys.shape[1] // num_heads].float()
            v, alpha, b = values[t, n].float(), log_decay[t, n].float().exp(), beta[t, n].float()
            state[n] = alpha * state[n] @ (eye - b * torch.outer(k, k)) + b * torch.outer(v, k)
    return state


def mamba2(state: torch.Tensor, x: torch.Tensor, b: torch.Tensor, dt: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """The state behind T tokens of Mamba2, S_t = exp(Δ_t A) S_{t-1} + Δ_t x_t B_tᵀ.

    x: `[T, N, P]`; b (the paper's B): `[T, G, K]`; dt (Δ, behind its bias and softplus): `[T, N]`; a (A, negative):
    `[N]`. Formula: Dao and Gu, arXiv 2405.21060, section 7.
    """
    num_heads = x.shape[1]
    state = state.float().clone()
    for t in range(x.shape[0]):
        for n in range(num_heads):
            key, step = b[t, n * b.shape[1] // num_heads].float(), dt[t, n].float()
            state[n] = (step * a[n].float()).exp() * state[n] + step * torch.outer(x[t, n].float(), key)
    return state


def gated_delta_affine(
    keys: torch.Tensor, values: torch.Tensor, log_decay: torch.Tensor, beta: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """A `[N, K, K]` and B `[N, P, K]` of an event of the gated delta rule: what it makes of I and of zero."""
    (num_tokens, num_heads, value_dim), key_dim = values.shape, keys.shape[2]
    nothing = torch.zeros(num_tokens, num_heads, key_dim)
    eye = torch.eye(key_dim).expand(num_heads, -1, -1)
    a = gated_delta(eye, keys, nothing, log_decay, beta)
    b = gated_delta(torch.zeros(num_heads, value_dim, key_dim), keys, values, log_decay, beta)
    return a, b


def mamba2_affine(
    x: torch.Tensor, b: torch.Tensor, dt: torch.Tensor, a: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """A `[N, K, K]` and B `[N, P, K]` of an event of Mamba2: what it makes of I and of zero."""
    (num_tokens, num_heads, value_dim), key_dim = x.shape, b.shape[2]
    nothing = torch.zeros(num_tokens, num_heads, key_dim)
    eye = torch.eye(key_dim).expand(num_heads, -1, -1)
    return mamba2(eye, nothing, b, dt, a), mamba2(torch.zeros(num_heads, value_dim, key_dim), x, b, dt, a)


def identity(stack: RecurrentStack) -> Engram:
    """What no token at all does: nothing, at rank 0."""
    by_head = len(stack.indices), stack.num_heads
    keys = torch.empty(*by_head, stack.key_dim, 0)
    return Engram(
        decay=torch.ones(by_head),
        erase_left=keys,
        erase_right=keys,
        write_values=torch.empty(*by_head, stack.value_dim, 0),
        write_keys=keys,
        tail=torch.empty(by_head[0], stack.conv_channels, 0),
    )


def as_affine(engram: Engram) -> tuple[torch.Tensor, torch.Tensor]:
    """A `[R, N, K, K]` and B `[R, N, P, K]` of S ↦ S·A + B, fp32."""
    eye = torch.eye(engram.write_keys.shape[2], device=engram.decay.device)
    a = engram.decay[..., None, None] * (eye - engram.erase_left.float() @ engram.erase_right.float().mT)
    return a, engram.write_values.float() @ engram.write_keys.float().mT
