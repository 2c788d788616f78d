"""Operators of the library `sgl_kernel` that SGLang's hybrid models call on a CPU, in plain PyTorch."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from sgl_kernel.mamba import step_gated_delta_rule

_LIBRARY = torch.library.Library("sgl_kernel", "FRAGMENT")


def _operator(schema: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = schema.split("(", 1)[0]
        _LIBRARY.define(schema)
        _LIBRARY.impl(name, function, "CPU")
        return function

    return register


def _gemma_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMS norm over the last dimension, weights counted from one."""
    normed = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return (normed * (1 + weight.float())).to(x.dtype)


@_operator("fused_sigmoid_mul_cpu(Tensor(a!) x, Tensor gate, bool inplace=True) -> Tensor(a!)")
def fused_sigmoid_mul_cpu(x: torch.Tensor, gate: torch.Tensor, inplace: bool = True) -> torch.Tensor:
    """Multiply `x` by the sigmoid of the gate, in place; SGLang 0.5.17 gives heads an axis of their own in the gate."""
    assert inplace
    return x.mul_(gate.float().sigmoid().to(x.dtype).reshape(x.shape))


@_operator(
    "fused_qk_gemma_rmsnorm_cpu(Tensor q, Tensor k, Tensor q_weight, Tensor k_weight, float eps, int head_dim)"
    " -> (Tensor, Tensor)"
)
def fused_qk_gemma_rmsnorm_cpu(
    q: torch.Tensor, k: torch.Tensor, q_weight: torch.Tensor, k_weight: torch.Tensor, eps: float, head_dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Norm the heads of queries and keys; returned as `[tokens · heads, D]`."""
    return _gemma_norm(q.reshape(-1, head_dim), q_weight, eps), _gemma_norm(k.reshape(-1, head_dim), k_weight, eps)


@_operator(
    "fused_qk_gemma_rmsnorm_with_gate_cpu(Tensor q_gate, Tensor k, Tensor q_weight, Tensor k_weight, float eps,"
    " int head_dim, int num_heads) -> (Tensor, Tensor, Tensor)"
)
def fused_qk_gemma_rmsnorm_with_gate_cpu(
    q_gate: torch.Tensor,
    k: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    eps: float,
    head_dim: int,
    num_heads: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same where every query head is followed by its output gate, which is returned as it is."""
    q, gate = q_gate.view(-1, num_heads, 2 * head_dim).split(head_dim, dim=-1)
    return (
        _gemma_norm(q, q_weight, eps).flatten(1),
        _gemma_norm(k.reshape(-1, head_dim), k_weight, eps).view(k.shape),
        gate.flatten(1).clone(),
    )


@_operator(
    "fused_qkvzba_split_reshape_cat_contiguous_cpu(Tensor qkvz, Tensor ba, int num_k_heads, int num_v_heads,"
    " int head_k_dim, int head_v_dim) -> (Tensor, Tensor, Tensor, Tensor)"
)
def fused_qkvzba_split_reshape_cat_contiguous_cpu(
    qkvz: torch.Tensor, ba: torch.Tensor, num_k_heads: int, num_v_heads: int, head_k_dim: int, head_v_dim: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Split the two input projections of a gated delta layer into what is convolved, z, b and a."""
    values = num_v_heads * head_v_dim
    mixed, z = qkvz.split([2 * num_k_heads * head_k_dim + values, values], dim=-1)
    b, a = ba.chunk(2, dim=-1)
    return mixed.clone(), z.reshape(-1, num_v_heads, head_v_dim).clone(), b.clone(), a.clone()


@_operator("fused_gdn_gating_cpu(Tensor A_log, Tensor a, Tensor b, Tensor dt_bias) -> (Tensor, Tensor)")
def fused_gdn_gating_cpu(
    A_log: torch.Tensor, a: torch.Tensor, b: torch.Tensor, dt_bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log decay and writing strength `[1, T, N]` fp32; the strength is rounded to the dtype of `b` on the way."""
    g = -A_log.float().exp() * functional.softplus(a.float() + dt_bias.float())
    return g[None], b.float().sigmoid().to(b.dtype).float()[None]


@_operator(
    "fused_sigmoid_gating_delta_rule_update_cpu(Tensor A_log, Tensor dt_bias, Tensor q, Tensor k, Tensor v, Tensor a,"
    " Tensor b, Tensor(a!) initial_state_source, Tensor initial_state_indices, Tensor cu_seqlens,"
    " bool use_qk_l2norm_in_kernel, float softplus_beta, float softplus_threshold) -> Tensor"
)
def fused_sigmoid_gating_delta_rule_update_cpu(
    A_log: torch.Tensor,
    dt_bias: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    initial_state_source: torch.Tensor,
    initial_state_indices: torch.Tensor,
    cu_seqlens: torch.Tensor,
    use_qk_l2norm_in_kernel: bool,
    softplus_beta: float,
    softplus_threshold: float,
) -> torch.Tensor:
    """One decoded token for each sequence, q, k, v `[1, B, heads, D]`; the states of the slots are updated."""
    assert use_qk_l2norm_in_kernel
    slots = initial_state_indices.long()
    g, beta = fused_gdn_gating_cpu(A_log, a, b, dt_bias)
    states = initial_state_source[slots].float()
    out, after = step_gated_delta_rule(q[0], k[0], v[0], g[0], beta[0], states)
    initial_state_source[slots] = after.to(initial_state_source.dtype)
    return out.to(v.dtype)[None]
