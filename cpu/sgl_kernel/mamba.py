"""Short convolution and gated delta rule in plain PyTorch.

Every function has the signature that SGLang calls and updates the states in its pools in place. Arithmetic is fp32
whatever the dtypes of inputs and pools. Letters: T tokens of the batch, sequences one behind the other as `cu_seqlens`
says; N heads, K key dimension, P value dimension, C channels, W width.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional

CHUNK = 64
"""Tokens that are solved together; SGLang expects the states at these boundaries for its prefix cache."""


def spans(cu_seqlens: torch.Tensor) -> Iterator[tuple[int, int]]:
    """Start and end of every sequence."""
    yield from itertools.pairwise(cu_seqlens.tolist())


def causal_conv1d_fn_cpu(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    conv_states: torch.Tensor,
    query_start_loc: torch.Tensor,
    cache_indices: torch.Tensor,
    has_initial_state: torch.Tensor | None = None,
    activation: str | None = "silu",
    **unused: Any,
) -> torch.Tensor:
    """Depthwise causal convolution of `x` `[C, T]` with `weight` `[C, W]`; states are `[slots, C, W - 1]`."""
    width = weight.shape[1]
    out = torch.empty_like(x)
    for index, (start, end) in enumerate(spans(query_start_loc)):
        slot = int(cache_indices[index])
        goes_on = has_initial_state is not None and bool(has_initial_state[index])
        before = conv_states[slot] if goes_on else torch.zeros_like(conv_states[slot])
        seen = torch.cat([before.to(x.dtype), x[:, start:end]], dim=1)
        out[:, start:end] = _convolve(seen, weight, bias, activation)
        conv_states[slot] = seen[:, seen.shape[1] - (width - 1) :].to(conv_states.dtype)
    return out


def causal_conv1d_update_cpu(
    x: torch.Tensor,
    conv_state: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    *,
    conv_state_indices: torch.Tensor,
    **unused: Any,
) -> torch.Tensor:
    """One token for each sequence: `x` is `[B, C]`."""
    slots = conv_state_indices.long()
    seen = torch.cat([conv_state[slots].to(x.dtype), x[:, :, None]], dim=2)
    conv_state[slots] = seen[:, :, 1:].to(conv_state.dtype)
    return _convolve(seen, weight, bias, activation)[:, :, 0]


def _convolve(
    seen: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str | None
) -> torch.Tensor:
    bias = None if bias is None else bias.float()
    out = functional.conv1d(seen.float(), weight.float()[:, None], bias, groups=weight.shape[0])
    return (functional.silu(out) if activation in ("silu", "swish") else out).to(seen.dtype)


def chunk_gated_delta_rule_cpu(
    *,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    initial_state_indices: torch.Tensor,
    cu_seqlens: torch.Tensor,
    use_qk_l2norm_in_kernel: bool = True,
    **unused: Any,
) -> tuple[torch.Tensor, None, torch.Tensor]:
    """Gated delta rule (Yang et al., arXiv 2412.06464) over sequences that begin with the states of their slots.

    q, k `[1, T, Nk, K]`, v `[1, T, N, P]`, g (log decay) and beta `[1, T, N]`, states `[slots, N, P, K]`. Returns the
    output `[1, T, N, P]`, None (the states are updated in place) and, for the prefix cache, the states at the beginning
    of every chunk `[1, chunks, N, P, K]`.
    """
    assert use_qk_l2norm_in_kernel
    query, key = _heads(q[0], k[0], v.shape[2])
    out = torch.empty_like(v)
    at_chunks = []
    for index, (start, end) in enumerate(spans(cu_seqlens)):
        slot = int(initial_state_indices[index])
        state = initial_state[slot].float()
        for first in range(start, end, CHUNK):
            at_chunks.append(state)
            part = slice(first, min(first + CHUNK, end))
            inputs = (x[0, part].float().transpose(0, 1) for x in (v, g, beta))
            written, state = _delta_chunk(query[part].transpose(0, 1), key[part].transpose(0, 1), *inputs, state)
            out[0, part] = written.transpose(0, 1).to(out.dtype)
        initial_state[slot] = state.to(initial_state.dtype)
    return out, None, torch.stack(at_chunks)[None]


def _delta_chunk(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """At most `CHUNK` tokens at once, all `[N, t, …]`: output `[N, t, P]` and the state `[N, P, K]` behind them."""
    decay = g.cumsum(1)
    between = (decay[:, :, None] - decay[:, None, :]).tril().exp().tril()
    weighted = beta[..., None] * k
    system = torch.eye(k.shape[1]) + (weighted @ k.mT * between).tril(-1)
    carried = decay.exp()[..., None] * (weighted @ state.mT)
    update = torch.linalg.solve_triangular(system, beta[..., None] * v - carried, upper=False, unitriangular=True)
    out = decay.exp()[..., None] * (q @ state.mT) + (q @ k.mT * between) @ update
    left = (decay[:, -1:] - decay).exp()[..., None]
    return out, decay[:, -1, None, None].exp() * state + update.mT @ (left * k)


def step_gated_delta_rule(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token for each of B sequences: q, k `[B, Nk, K]`, v `[B, N, P]`, g, beta `[B, N]`, states `[B, N, P, K]`."""
    query, key = _heads(q, k, v.shape[1])
    state = g.exp()[..., None, None] * state
    update = beta[..., None] * (v.float() - (state @ key[..., None])[..., 0])
    state = state + update[..., None] * key[..., None, :]
    out = (state @ query[..., None])[..., 0]
    return out, state


def _heads(q: torch.Tensor, k: torch.Tensor, num_heads: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys `[…, Nk, K]` normed, queries scaled by K ** -0.5, both repeated to `num_heads`."""
    query, key = (x.float() * torch.rsqrt(x.float().square().sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    repeats = num_heads // k.shape[-2]
    return (query * k.shape[-1] ** -0.5).repeat_interleave(repeats, dim=-2), key.repeat_interleave(repeats, dim=-2)
