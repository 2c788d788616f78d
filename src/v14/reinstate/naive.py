"""Attention over parts of a context, merged: why a span in the KV cache needs no kernel of its own.

Softmax over a concatenation of keys equals the mean of the softmaxes over its parts, weighted by each part's share of
the exponential mass (the merge of Dao et al., FlashAttention, arXiv 2205.14135, and of FlashInfer's cascades). So a
span read by the engine's own attention *is* the merge of prompt and memory. Plain fp32, for tests and for reading.

Shapes: Q queries, T keys, D head dimension; leading dimensions are batch and heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Attention over one part of a context: `out` `[..., Q, D]` and `lse` `[..., Q]`, the natural log-sum-exp of its
    scaled scores."""

    out: torch.Tensor
    lse: torch.Tensor


def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float) -> Part:
    """Unmasked attention of queries `[..., Q, D]` over keys and values `[..., T, D]`, in fp32."""
    scores = queries.float() @ keys.float().transpose(-1, -2) * scaling
    return Part(out=scores.softmax(-1) @ values.float(), lse=scores.logsumexp(-1))


def merge(parts: Sequence[Part]) -> Part:
    """Attention over all parts together, whatever their order and grouping."""
    lse = torch.stack([part.lse for part in parts])
    total = lse.logsumexp(0)
    share = (lse - total).exp()
    out = torch.stack([part.out for part in parts])
    return Part(out=(share[..., None] * out).sum(0), lse=total)
