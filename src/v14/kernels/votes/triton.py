"""All voters and events at once.

Where all events are scanned, keys lie in tiles of 128 tokens that no event crosses. A program keeps its voter's queries
and takes tile after tile: keys times queries on the tensor cores, accumulated in fp32, exponentials, and sums over each
event by a second product, with a matrix that says which token is whose. Only the mean share over the cue's tokens is
written. Programs of one run of tiles and all voters follow one another, so that a row of keys comes from memory once
and from the cache for its other voters. Single events are read one by one.

Shapes in the comments: T tokens of a tile, E events of a tile, Q queries (padded to a power of two, at most
`MAX_QUERIES` in one program; more are further programs), D dimension of a head.
"""

import math

import torch
import triton
import triton.language as tl

from v14.kernels.votes import MAX_EXPONENT, TILE, TILE_EVENTS, Asked, Tiles

MAX_QUERIES = 64
EVENTS = 16
TOKENS = 64
NUM_WARPS = 4
NUM_STAGES = 2

SCAN = {
    64: {"run": 16, "num_warps": 4, "num_stages": 3},
    128: {"run": 16, "num_warps": 4, "num_stages": 2},
    256: {"run": 16, "num_warps": 8, "num_stages": 2},
}
"""How tiles are scanned, by the (padded) dimension of a head at most: `run` of them by one program."""

LOG2_E = 1 / math.log(2)


@triton.jit(do_not_specialize=["num_voters", "num_events", "num_queries", "num_tiles"])
def _event_shares(
    keys: tl.tensor, scales: tl.tensor, starts: tl.tensor, lengths: tl.tensor, rows: tl.tensor,
    queries: tl.tensor, context: tl.tensor, out: tl.tensor,
    num_voters: tl.tensor, num_events: tl.tensor, num_queries: tl.tensor,
    row_stride: tl.tensor, scale_stride: tl.tensor,
    D: tl.constexpr, PADDED_D: tl.constexpr, Q: tl.constexpr, T: tl.constexpr, EVENTS: tl.constexpr,
    SCALED: tl.constexpr, LIMIT: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """`out[chunk, voter, event]`: sum over a chunk's queries of the shares."""
    voter, chunk = tl.program_id(0) % num_voters, tl.program_id(1)
    first = tl.program_id(0) // num_voters * EVENTS
    row = tl.load(rows + voter).to(tl.int64)
    d, asked = tl.arange(0, PADDED_D), chunk * Q + tl.arange(0, Q)
    live = asked < num_queries
    place = voter * num_queries + asked
    query = tl.load(queries + place[None, :] * D + d[:, None], mask=live[None, :] & (d < D)[:, None], other=0.0)
    offered = tl.load(context + place, mask=live, other=0.0)
    keys += row * row_stride
    scales += row * scale_stride
    out += (chunk * num_voters + voter).to(tl.int64) * num_events
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


@triton.jit(do_not_specialize=["num_voters", "num_events", "num_queries", "num_tiles"])
def _scanned_shares(
    keys: tl.tensor, scales: tl.tensor, owners: tl.tensor, slots: tl.tensor, rows: tl.tensor,
    queries: tl.tensor, context: tl.tensor, out: tl.tensor,
    num_tiles: tl.tensor, num_voters: tl.tensor, num_events: tl.tensor, num_queries: tl.tensor,
    row_stride: tl.tensor, scale_stride: tl.tensor,
    D: tl.constexpr, PADDED_D: tl.constexpr, Q: tl.constexpr, T: tl.constexpr, E: tl.constexpr,
    TILES: tl.constexpr, SCALED: tl.constexpr, LIMIT: tl.constexpr, PRECISION: tl.constexpr, SUMS: tl.constexpr,
) -> None:  # fmt: skip
    """`out[chunk, voter, event]`: sum over a chunk's queries of the shares, tile after tile."""
    voter, chunk = tl.program_id(0) % num_voters, tl.program_id(1)
    first = tl.program_id(0) // num_voters * TILES
    row = tl.load(rows + voter).to(tl.int64)
    d, asked = tl.arange(0, PADDED_D), chunk * Q + tl.arange(0, Q)
    live = asked < num_queries
    place = voter * num_queries + asked
    query = tl.load(queries + place[None, :] * D + d[:, None], mask=live[None, :] & (d < D)[:, None], other=0.0)
    offered = tl.load(context + place, mask=live, other=0.0)
    keys += row * row_stride
    scales += row * scale_stride
    out += (chunk * num_voters + voter).to(tl.int64) * num_events
    number = tl.arange(0, E)
    for tile in range(first, tl.minimum(first + TILES, num_tiles)):
        token = tile * T + tl.arange(0, T).to(tl.int64)
        if D == PADDED_D:
            key = tl.load(keys + token[:, None] * D + d[None, :])
        else:
            key = tl.load(keys + token[:, None] * D + d[None, :], mask=(d < D)[None, :], other=0.0)
        score = tl.dot(key.to(query.dtype), query, input_precision=PRECISION)
        if SCALED:
            score *= tl.load(scales + token).to(tl.float32)[:, None]
        owner = tl.load(owners + token).to(tl.int32)
        relative = tl.minimum(tl.maximum(score - offered[None, :], -LIMIT), LIMIT)
        part = tl.where((owner >= 0)[:, None], tl.exp2(relative), 0.0)
        member = tl.where(number[:, None] == owner[None, :], 1.0, 0.0)
        mass = tl.dot(member, part, input_precision=SUMS)
        share = tl.where(live[None, :], mass / (1 + mass), 0.0)
        slot = tl.load(slots + tile * E + number)
        tl.store(out + slot, tl.sum(share, 1), mask=slot >= 0)


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
    kind, precision = _product(keys)
    grid = num_voters * triton.cdiv(num_events, events), num_chunks
    _event_shares[grid](
        keys, keys if scales is None else scales, starts, lengths, asked.rows,
        (asked.queries * LOG2_E).to(kind).contiguous(), (asked.context * LOG2_E).contiguous(), out,
        num_voters, num_events, num_queries, keys.stride(0), 0 if scales is None else scales.stride(0),
        D=dim, PADDED_D=_padded(dim), Q=padded, T=tokens, EVENTS=events,
        SCALED=scales is not None, LIMIT=MAX_EXPONENT * LOG2_E,
        PRECISION=precision, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out.sum(0).div_(num_queries)


def scanned_shares(
    keys: torch.Tensor,
    scales: torch.Tensor | None,
    tiles: Tiles,
    num_events: int,
    asked: Asked,
    *,
    max_queries: int = MAX_QUERIES,
    run: int = 0,
    num_warps: int = 0,
    num_stages: int = 0,
) -> torch.Tensor:
    """See `v14.kernels.votes.scanned_shares`. `run` tiles go to one program; 0 is for what `SCAN` says."""
    (num_voters, num_queries, dim), num_tiles = asked.queries.shape, len(tiles.slots)
    padded = min(max_queries, _padded(num_queries))
    num_chunks = triton.cdiv(num_queries, padded)
    out = torch.zeros(num_chunks, num_voters, num_events, device=keys.device)
    if num_tiles == 0:
        return out[0]
    kind, precision = _product(keys)
    how = SCAN[next((size for size in SCAN if dim <= size), max(SCAN))]
    run = run or how["run"]
    _scanned_shares[num_voters * triton.cdiv(num_tiles, run), num_chunks](
        keys, keys if scales is None else scales, tiles.owners, tiles.slots, asked.rows,
        (asked.queries * LOG2_E).to(kind).contiguous(), (asked.context * LOG2_E).contiguous(), out,
        num_tiles, num_voters, num_events, num_queries, keys.stride(0), 0 if scales is None else scales.stride(0),
        D=dim, PADDED_D=_padded(dim), Q=padded, T=TILE, E=TILE_EVENTS, TILES=run,
        SCALED=scales is not None, LIMIT=MAX_EXPONENT * LOG2_E, PRECISION=precision,
        SUMS="tf32x3" if kind == torch.float32 else "tf32",
        num_warps=num_warps or how["num_warps"], num_stages=num_stages or how["num_stages"],
    )  # fmt: skip
    return out.sum(0).div_(num_queries)


def _product(keys: torch.Tensor) -> tuple[torch.dtype, str]:
    """What keys are multiplied as, and Triton's name for how: fp16 holds 8 bits exactly, and 10 bits of the queries."""
    kind = torch.float16 if keys.dtype == torch.int8 else keys.dtype
    return kind, "tf32x3" if kind == torch.float32 else "tf32"


def _padded(size: int) -> int:
    """The next power of two that a product of tiles takes."""
    return max(16, 1 << (size - 1).bit_length())
