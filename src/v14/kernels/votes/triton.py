"""All voters and events at once: one program for each voter and run of events.

A program keeps its voter's queries and takes event after event: a tile of keys times the queries on the tensor cores,
accumulated in fp32, exponentials, a sum over the event's tokens, and the mean share over the cue's tokens. Only that is
written. Programs of one run of events and all voters follow one another, so that a row of keys comes from memory once
and from the cache for its other voters.

Shapes in the comments: T tokens of a tile, Q queries (padded to a power of two, at most `MAX_QUERIES` in one program;
more are further programs), D dimension of a head.
"""

import math

import torch
import triton
import triton.language as tl

from v14.kernels.votes import MAX_EXPONENT, Asked

MAX_QUERIES = 64
EVENTS = 16
TOKENS = 64
NUM_WARPS = 4
NUM_STAGES = 2

LOG2_E = 1 / math.log(2)


@triton.jit
def _event_shares(
    keys: tl.tensor, scales: tl.tensor, starts: tl.tensor, lengths: tl.tensor, rows: tl.tensor,
    queries: tl.tensor, context: tl.tensor, out: tl.tensor,
    num_events: tl.tensor, num_queries: tl.tensor, row_stride: tl.tensor, scale_stride: tl.tensor,
    V: tl.constexpr, D: tl.constexpr, PADDED_D: tl.constexpr, Q: tl.constexpr, T: tl.constexpr, EVENTS: tl.constexpr,
    SCALED: tl.constexpr, LIMIT: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """`out[chunk, voter, event]`: sum over a chunk's queries of the shares."""
    voter, chunk = tl.program_id(0) % V, tl.program_id(1)
    first = tl.program_id(0) // V * EVENTS
    row = tl.load(rows + voter).to(tl.int64)
    d, asked = tl.arange(0, PADDED_D), chunk * Q + tl.arange(0, Q)
    live = asked < num_queries
    place = voter * num_queries + asked
    query = tl.load(queries + place[None, :] * D + d[:, None], mask=live[None, :] & (d < D)[:, None], other=0.0)
    offered = tl.load(context + place, mask=live, other=0.0)
    keys += row * row_stride
    scales += row * scale_stride
    out += (chunk * V + voter).to(tl.int64) * num_events
    for event in range(first, tl.minimum(first + EVENTS, num_events)):
        start, length = tl.load(starts + event), tl.load(lengths + event)
        mass = tl.zeros([Q], dtype=tl.float32)
        for at in range(0, length, T):
            t = at + tl.arange(0, T)
            here = t < length
            token = start + t
            tile = tl.load(keys + token[:, None] * D + d[None, :], mask=here[:, None] & (d < D)[None, :], other=0.0).to(
                query.dtype
            )
            score = tl.dot(tile, query, input_precision=PRECISION)
            if SCALED:
                score *= tl.load(scales + token, mask=here, other=0.0).to(tl.float32)[:, None]
            relative = tl.minimum(tl.maximum(score - offered[None, :], -LIMIT), LIMIT)
            mass += tl.sum(tl.where(here[:, None], tl.exp2(relative), 0.0), 0)
        share = tl.where(live, mass / (1 + mass), 0.0)
        tl.store(out + event, tl.sum(share, 0))


def event_shares(
    keys: torch.Tensor,
    scales: torch.Tensor | None,
    starts: torch.Tensor,
    lengths: torch.Tensor,
    asked: Asked,
    *,
    max_queries: int = MAX_QUERIES,
    events: int = EVENTS,
    tokens: int = TOKENS,
    num_warps: int = NUM_WARPS,
    num_stages: int = NUM_STAGES,
) -> torch.Tensor:
    """See `v14.kernels.votes.event_shares`. `max_queries` and `tokens` are powers of two from 16 on; `events` go to one
    program."""
    (num_voters, num_queries, dim), num_events = asked.queries.shape, len(starts)
    padded = min(max_queries, _padded(num_queries))
    num_chunks = triton.cdiv(num_queries, padded)
    out = torch.empty(num_chunks, num_voters, num_events, device=keys.device)
    if num_events == 0:
        return out[0]
    # What multiplies int8 exactly, keeps 10 bits of the queries.
    kind = torch.float16 if scales is not None else keys.dtype
    grid = num_voters * triton.cdiv(num_events, events), num_chunks
    _event_shares[grid](
        keys, keys if scales is None else scales, starts, lengths, asked.rows,
        (asked.queries * LOG2_E).to(kind).contiguous(), (asked.context * LOG2_E).contiguous(), out,
        num_events, num_queries, keys.stride(0), 0 if scales is None else scales.stride(0),
        V=num_voters, D=dim, PADDED_D=_padded(dim), Q=padded, T=tokens, EVENTS=events,
        SCALED=scales is not None, LIMIT=MAX_EXPONENT * LOG2_E,
        PRECISION="tf32x3" if kind == torch.float32 else "tf32",
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out.sum(0).div_(num_queries)


def _padded(size: int) -> int:
    """The next power of two that a product of tiles takes."""
    return max(16, 1 << (size - 1).bit_length())
