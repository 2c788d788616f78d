"""Mamba2's state-space update in plain PyTorch, under the names and signatures of SGLang's Triton functions.

Arithmetic is fp32 whatever the dtypes of inputs and pools. Letters: T tokens of the batch, sequences one behind the
other, N heads in G groups, P head dimension, K state size.
"""

import itertools
from typing import Any

import torch
from torch.nn import functional

from sgl_kernel.mamba import spans


def mamba_chunk_scan_combined(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    chunk_size: int,
    *,
    D: torch.Tensor,
    dt_bias: torch.Tensor,
    cu_seqlens: torch.Tensor,
    out: torch.Tensor,
    initial_states: torch.Tensor | None = None,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    track_seq_idx: torch.Tensor | None = None,
    track_end_locs: torch.Tensor | None = None,
    return_track_states: bool = False,
    **unused: Any,
) -> tuple[torch.Tensor | None, ...]:
    """x `[1, T, N, P]`, dt `[1, T, N]`, A `[N]`, B, C `[1, T, G, K]`, D, dt_bias `[N]`, initial states `[S, N, P, K]`.

    Writes the output into `out` `[1, T, N, P]`. Returns, for the prefix cache, the states at the chunk boundaries of
    the whole batch `[1, chunks, N, P, K]`, the last state of every sequence, and the states at `track_end_locs`, which
    only a caller that knows of them gets (SGLang 0.5.17 does not).
    """
    repeats = x.shape[2] // B.shape[2]
    step = functional.softplus(dt[0].float() + dt_bias.float()).clamp(*dt_limit)
    keys, queries = (y[0].float().repeat_interleave(repeats, dim=1) for y in (B, C))
    wanted = set(range(0, x.shape[1], chunk_size)) | set(() if track_end_locs is None else track_end_locs.tolist())
    states: dict[int, torch.Tensor] = {}
    last = []
    for index, (start, end) in enumerate(spans(cu_seqlens)):
        state = x.new_zeros((*x.shape[2:], keys.shape[-1]), dtype=torch.float32)
        if initial_states is not None:
            state = initial_states[index].float()
        cuts = sorted({start, end, *(cut for cut in wanted if start < cut < end)})
        for first, stop in itertools.pairwise(cuts):
            states[first] = state
            part = slice(first, stop)
            inputs = (y[part].transpose(0, 1) for y in (x[0].float(), step, keys, queries))
            read, state = _scan(*inputs, A.float(), state)
            out[0, part] = (read.transpose(0, 1) + D.float()[:, None] * x[0, part].float()).to(out.dtype)
        states[end] = state
        last.append(state)
    at_chunks = torch.stack([states[cut] for cut in range(0, x.shape[1], chunk_size)])[None]
    tracked = None if track_end_locs is None else torch.stack([states[cut] for cut in track_end_locs.tolist()])[None]
    return (at_chunks, torch.stack(last), tracked) if return_track_states else (at_chunks, torch.stack(last))


def _scan(
    x: torch.Tensor, step: torch.Tensor, k: torch.Tensor, q: torch.Tensor, a: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """A run of t tokens at once (Dao and Gu, arXiv 2405.21060, the quadratic form): output and last state."""
    decay = (step * a[:, None]).cumsum(1)
    between = (decay[:, :, None] - decay[:, None, :]).tril().exp().tril()
    written = step[..., None] * x
    out = (q @ k.mT * between) @ written + decay.exp()[..., None] * (q @ state.mT)
    left = (decay[:, -1:] - decay).exp()[..., None]
    return out, decay[:, -1, None, None].exp() * state + (left * written).mT @ k


def selective_state_update(
    state: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor,
    *,
    dt_bias: torch.Tensor,
    state_batch_indices: torch.Tensor,
    out: torch.Tensor,
    **unused: Any,
) -> None:
    """One token for each of S sequences: x, dt `[S, N, P]`, A `[N, P, K]`, B, C `[S, G, K]`, D, dt_bias `[N, P]`."""
    slots = state_batch_indices.long()
    repeats = x.shape[1] // B.shape[1]
    keys, queries = (y.float().repeat_interleave(repeats, dim=1) for y in (B, C))
    step = functional.softplus(dt.float() + dt_bias.float())
    after = (step[..., None] * A).exp() * state[slots].float() + (step * x.float())[..., None] * keys[:, :, None]
    state[slots] = after.to(state.dtype)
    read = (after @ queries[..., None])[..., 0] + D.float() * x.float()
    out.copy_(read.view(out.shape).to(out.dtype))
