"""Token by token, in fp32: the definition that the other versions are compared with. On any device."""

import torch

from v14.engram.gated_delta import normalise as normalised
from v14.kernels.engram import Events


def gated_delta_events(
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    bounds: torch.Tensor,
    *,
    normalise: bool = False,
) -> Events:
    """See `v14.kernels.engram.gated_delta_events`."""
    num_heads, value_dim, key_dim = v.shape[1], v.shape[2], k.shape[2]
    k = (normalised(k) if normalise else k.float()).repeat_interleave(num_heads // k.shape[1], dim=1)
    decays, erases, writes = [], [], []
    for start, end in zip(bounds.tolist()[:-1], bounds.tolist()[1:], strict=True):
        eye = torch.eye(key_dim, device=k.device).expand(num_heads, -1, -1)
        kept, write = eye, k.new_zeros(num_heads, value_dim, key_dim)
        for t in range(start, end):
            step = eye - beta[t].float()[:, None, None] * k[t, :, :, None] * k[t, :, None, :]
            kept = kept @ step
            new = (beta[t].float()[:, None] * v[t].float())[:, :, None] * k[t, :, None, :]
            write = g[t].float().exp()[:, None, None] * write @ step + new
        decays.append(g[start:end].float().sum(0).exp())
        erases.append(eye - kept)
        writes.append(write)
    return Events(torch.stack(decays), torch.stack(erases), torch.stack(writes))


def mamba2_events(x: torch.Tensor, b: torch.Tensor, dt: torch.Tensor, a: torch.Tensor, bounds: torch.Tensor) -> Events:
    """See `v14.kernels.engram.mamba2_events`."""
    num_heads, value_dim, key_dim = x.shape[1], x.shape[2], b.shape[2]
    b = b.float().repeat_interleave(num_heads // b.shape[1], dim=1)
    dt, a = dt.float(), a.float()
    decays, writes = [], []
    for start, end in zip(bounds.tolist()[:-1], bounds.tolist()[1:], strict=True):
        write = b.new_zeros(num_heads, value_dim, key_dim)
        for t in range(start, end):
            new = (dt[t][:, None] * x[t].float())[:, :, None] * b[t, :, None, :]
            write = (dt[t] * a).exp()[:, None, None] * write + new
        decays.append((dt[start:end].sum(0) * a).exp())
        writes.append(write)
    return Events(torch.stack(decays), None, torch.stack(writes))
