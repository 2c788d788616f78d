"""All voters and events at once.

Where all events are scanned, keys lie in tiles of 128 tokens that no event crosses. A program keeps its voter's queries
and takes tile after tile: keys times queries on the tensor cores, accumulated in fp32, exponentials, and sums over each
event by a second product, with a matrix that says which token is whose. Only the mean share over the cue's tokens is
written. Programs of one run of tiles and all voters follow one another, so that a row of keys comes from memory once
and from the cache for its other voters. Single events are read one by one. A vote takes few and small kernels: for some
thousand events launching them is what it costs.

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

LOG2_E: tl.constexpr = tl.constexpr(1 / math.log(2))

KINDS = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}

TALLIED = 256
"""Events whose votes one program sums."""


@triton.jit
def _asked(
    queries: tl.tensor, context: tl.tensor, voter: tl.tensor, chunk: tl.tensor, num_queries: tl.tensor,
    D: tl.constexpr, PADDED_D: tl.constexpr, Q: tl.constexpr, KIND: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:  # fmt: skip
    """One voter's queries `[D, Q]` of a chunk, what the prompt offers them `[Q]`, both for powers of two, and which of
    them there are."""
    d, asked = tl.arange(0, PADDED_D), chunk * Q + tl.arange(0, Q)
    live = asked < num_queries
    place = voter * num_queries + asked
    query = tl.load(queries + place[None, :] * D + d[:, None], mask=live[None, :] & (d < D)[:, None], other=0.0)
    offered = tl.load(context + place, mask=live, other=0.0)
    return (query * LOG2_E).to(KIND), offered * LOG2_E, live


@triton.jit(do_not_specialize=["num_voters", "num_events", "num_queries", "num_tiles"])
def _event_shares(
    keys: tl.tensor, scales: tl.tensor, starts: tl.tensor, lengths: tl.tensor, rows: tl.tensor,
    queries: tl.tensor, context: tl.tensor, out: tl.tensor,
    num_voters: tl.tensor, num_events: tl.tensor, num_queries: tl.tensor,
    row_stride: tl.tensor, scale_stride: tl.tensor,
    D: tl.constexpr, PADDED_D: tl.constexpr, Q: tl.constexpr, T: tl.constexpr, EVENTS: tl.constexpr,
    SCALED: tl.constexpr, LIMIT: tl.constexpr, KIND: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """`out[chunk, voter, event]`: what a chunk's queries add to the mean share."""
    voter, chunk = tl.program_id(0) % num_voters, tl.program_id(1)
    first = tl.program_id(0) // num_voters * EVENTS
    row, d = tl.load(rows + voter).to(tl.int64), tl.arange(0, PADDED_D)
    query, offered, live = _asked(queries, context, voter, chunk, num_queries, D, PADDED_D, Q, KIND)
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
                KIND
            )
            score = tl.dot(tile, query, input_precision=PRECISION)
            if SCALED:
                score *= tl.load(scales + token, mask=here, other=0.0).to(tl.float32)[:, None]
            relative = tl.minimum(tl.maximum(score - offered[None, :], -LIMIT), LIMIT)
            mass += tl.sum(tl.where(here[:, None], tl.exp2(relative), 0.0), 0)
        share = tl.where(live, mass / (1 + mass), 0.0)
        tl.store(out + event, tl.sum(share, 0) / num_queries)


@triton.jit(do_not_specialize=["num_voters", "num_events", "num_queries", "num_tiles"])
def _scanned_shares(
    keys: tl.tensor, scales: tl.tensor, owners: tl.tensor, slots: tl.tensor, rows: tl.tensor,
    queries: tl.tensor, context: tl.tensor, out: tl.tensor,
    num_tiles: tl.tensor, num_voters: tl.tensor, num_events: tl.tensor, num_queries: tl.tensor,
    row_stride: tl.tensor, scale_stride: tl.tensor,
    D: tl.constexpr, PADDED_D: tl.constexpr, Q: tl.constexpr, T: tl.constexpr, E: tl.constexpr,
    TILES: tl.constexpr, SCALED: tl.constexpr, LIMIT: tl.constexpr, KIND: tl.constexpr, PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
) -> None:  # fmt: skip
    """`out[chunk, voter, event]`: what a chunk's queries add to the mean share, tile after tile."""
    voter, chunk = tl.program_id(0) % num_voters, tl.program_id(1)
    first = tl.program_id(0) // num_voters * TILES
    row, d = tl.load(rows + voter).to(tl.int64), tl.arange(0, PADDED_D)
    query, offered, live = _asked(queries, context, voter, chunk, num_queries, D, PADDED_D, Q, KIND)
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
        score = tl.dot(key.to(KIND), query, input_precision=PRECISION)
        if SCALED:
            score *= tl.load(scales + token).to(tl.float32)[:, None]
        owner = tl.load(owners + token).to(tl.int32)
        relative = tl.minimum(tl.maximum(score - offered[None, :], -LIMIT), LIMIT)
        part = tl.where((owner >= 0)[:, None], tl.exp2(relative), 0.0)
        member = tl.where(number[:, None] == owner[None, :], 1.0, 0.0)
        mass = tl.dot(member, part, input_precision=SUMS)
        share = tl.where(live[None, :], mass / (1 + mass), 0.0)
        slot = tl.load(slots + tile * E + number)
        tl.store(out + slot, tl.sum(share, 1) / num_queries, mask=slot >= 0)


@triton.jit(do_not_specialize=["num_voters", "num_events"])
def _tally(
    shares: tl.tensor, null_shares: tl.tensor, voters: tl.tensor, weights: tl.tensor, lengths: tl.tensor,
    slots: tl.tensor, out: tl.tensor, num_voters: tl.tensor, num_events: tl.tensor, null_stride: tl.tensor,
    FLOOR: tl.constexpr, RATIO: tl.constexpr, PICKED: tl.constexpr, N: tl.constexpr,
) -> None:  # fmt: skip
    """`out[event]`: the weighted sum over the voters of what is left of a share without the null share."""
    event = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    live = event < num_events
    slot = tl.load(slots + event, mask=live, other=0) if PICKED else event
    total = tl.zeros([N], dtype=tl.float32)
    for number in range(num_voters):
        voter = tl.load(voters + number).to(tl.int64)
        share = tl.load(shares + number * num_events + event, mask=live, other=0.0)
        null = tl.load(null_shares + voter * null_stride + slot, mask=live, other=0.0)
        left = tl.log((share + FLOOR) / (null + FLOOR)) if RATIO else share - null
        total += tl.load(weights + voter) * left
    gone = tl.load(lengths + slot, mask=live, other=0) == 0
    tl.store(out + event, tl.where(gone, float("-inf"), total), mask=live)


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
        asked.queries.contiguous(), asked.context.contiguous(), out,
        num_voters, num_events, num_queries, keys.stride(0), 0 if scales is None else scales.stride(0),
        D=dim, PADDED_D=_padded(dim), Q=padded, T=tokens, EVENTS=events,
        SCALED=scales is not None, LIMIT=MAX_EXPONENT * LOG2_E.value, KIND=KINDS[kind],
        PRECISION=precision, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out[0] if num_chunks == 1 else out.sum(0)


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
        asked.queries.contiguous(), asked.context.contiguous(), out,
        num_tiles, num_voters, num_events, num_queries, keys.stride(0), 0 if scales is None else scales.stride(0),
        D=dim, PADDED_D=_padded(dim), Q=padded, T=TILE, E=TILE_EVENTS, TILES=run,
        SCALED=scales is not None, LIMIT=MAX_EXPONENT * LOG2_E.value, KIND=KINDS[kind], PRECISION=precision,
        SUMS="tf32x3" if kind == torch.float32 else "tf32",
        num_warps=num_warps or how["num_warps"], num_stages=num_stages or how["num_stages"],
    )  # fmt: skip
    return out[0] if num_chunks == 1 else out.sum(0)


def tally(
    shares: torch.Tensor,
    null_shares: torch.Tensor,
    lengths: torch.Tensor,
    slots: torch.Tensor | None,
    voters: torch.Tensor,
    weights: torch.Tensor,
    floor: float | None,
) -> torch.Tensor:
    """See `v14.kernels.votes.tally`."""
    num_voters, num_events = shares.shape
    out = torch.empty(num_events, device=shares.device)
    if num_events:
        _tally[(triton.cdiv(num_events, TALLIED),)](
            shares, null_shares, voters, weights, lengths, lengths if slots is None else slots, out,
            num_voters, num_events, null_shares.stride(0),
            FLOOR=floor or 0.0, RATIO=floor is not None, PICKED=slots is not None, N=TALLIED,
        )  # fmt: skip
    return out


def _product(keys: torch.Tensor) -> tuple[torch.dtype, str]:
    """What keys are multiplied as, and Triton's name for how: fp16 holds 8 bits exactly, and 10 bits of the queries."""
    kind = torch.float16 if keys.dtype == torch.int8 else keys.dtype
    return kind, "tf32x3" if kind == torch.float32 else "tf32"


def _padded(size: int) -> int:
    """The next power of two that a product of tiles takes."""
    return max(16, 1 << (size - 1).bit_length())
