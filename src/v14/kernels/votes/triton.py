"""All voters and events at once.

A program keeps its voter's queries and reads some events one by one, a few tokens at a time: queries times keys on the
tensor cores, exponentials, and their sums over the event. Only the mean share over the cue's tokens is written.
Programs of the same events and all voters follow one another, so that a row of keys comes from memory once and from the
cache for its other voters. One warp has all queries and no sum crosses warps; a multiprocessor has many such programs,
and while some wait for keys others compute. Tiles of keys that no event crosses, with sums over events by a second
product, were slower (LOG.md, "votes on a GPU").

Keys in 8 bits are multiplied as such, by queries in two planes of 8 bits, which together hold them to 16: turning keys
to floats costs more than the second product. Sketches, 8 bits without scales, only choose: one plane will do, and
exponentials within 3%. Those are made as Schraudolph's (Neural Computation 11, 1999): a score, scaled and shifted, *is*
the bits of a float whose exponent it is and whose mantissa lies on a straight line between powers of two. So a score
takes two multiply-adds, the first of which bounds it for nothing, and a shift; conversions and exponentials proper run
at an eighth of their speed. A vote takes few kernels: for some thousand events launching them is most of what it costs.

Shapes in the comments: T tokens read at once, Q queries (padded to a power of two, at most `MAX_QUERIES` in one
program; more are further programs), D dimension of a head.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl

from v14.kernels.votes import MAX_EXPONENT, Asked

MAX_QUERIES = 64
EVENTS = 32
FEW_EVENTS = 4096
"""Up to so many, programs of `EVENTS` would leave multiprocessors idle."""

TOKENS = 32
WARP_QUERIES = 32
WIDE = 128
"""Dimension of a head above which keys to come have no room beside those that are computed with."""

NARROW = 32
"""Dimension of sketches up to which waiting programs hide more than keys to come."""

LOG2_E: tl.constexpr = tl.constexpr(1 / math.log(2))
WHOLE: tl.constexpr = tl.constexpr(1.5 * 2**23)
WHOLE_BITS: tl.constexpr = tl.constexpr(0x4B400000)
"""A float whose last bit is one, and its bits: they go on counting, up to 2^22 either way. A product of two sketches is
far below that."""

NOWHERE_BITS: tl.constexpr = tl.constexpr(-0x800000)
"""Those of minus infinity."""

RANGE: tl.constexpr = tl.constexpr(242.0)
ZERO: tl.constexpr = tl.constexpr(127.0 - 0.043)
"""Powers of two that sketches' exponentials have, from 2^-127 on, and where 2^0 is among them, less what halves the
error of straight lines."""

STEPS: tl.constexpr = tl.constexpr(2**13)
SHORT_OF: tl.constexpr = tl.constexpr(23 - 13)
"""Steps from one power of two to the next, and by how many bits they are short of a mantissa."""

PLANE: tl.constexpr = tl.constexpr(254)
"""What a step of the first plane is in steps of the second: rounding leaves half a step, either way."""

KINDS = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.int8: tl.int8}

TALLIED = 256
"""Events whose votes one program sums."""


@triton.jit
def _asked(
    queries: tl.tensor, context: tl.tensor, voter: tl.tensor, chunk: tl.tensor, num_queries: tl.tensor,
    D: tl.constexpr, PADDED_D: tl.constexpr, Q: tl.constexpr, KIND: tl.constexpr, PLANES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor, tl.tensor]:  # fmt: skip
    """One voter's queries `[Q, D]` of a chunk for powers of two, in 8 bits of one or two planes with the last one's
    step `[Q]`; what the prompt offers them `[Q]`, and which of them there are."""
    d, asked = tl.arange(0, PADDED_D), chunk * Q + tl.arange(0, Q)
    live = asked < num_queries
    place = voter * num_queries + asked
    query = tl.load(queries + place[:, None] * D + d[None, :], mask=live[:, None] & (d < D)[None, :], other=0.0)
    offered = tl.load(context + place, mask=live, other=0.0)
    query, offered = query * LOG2_E, offered * LOG2_E
    second, step = query, offered
    if PLANES > 0:
        step = tl.maximum(tl.max(tl.abs(query), 1), 1e-30) / 127
        first = tl.floor(query / step[:, None] + 0.5)
        if PLANES == 2:
            rest = (query - first * step[:, None]) * PLANE
            second = tl.minimum(tl.maximum(tl.floor(rest / step[:, None] + 0.5), -127.0), 127.0).to(tl.int8)
            step /= PLANE
        query = first
    return query.to(KIND), second, step, offered, live


@triton.jit
def _mass(
    query: tl.tensor, second: tl.tensor, step: tl.tensor, offered: tl.tensor,
    key: tl.tensor, scale: tl.tensor, here: tl.tensor,
    LIMIT: tl.constexpr, PLANES: tl.constexpr, PRECISION: tl.constexpr, SATURATES: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """`[Q, T]`: exponentials of the scores of keys `[D, T]`, relative to what the prompt offers; 0 for what is not
    `here`."""
    if PLANES == 1:
        # Added to `WHOLE`'s bits whole numbers are floats.
        begin = tl.where(here, WHOLE_BITS, NOWHERE_BITS)[None, :] + tl.zeros([query.shape[0], 1], tl.int32)
        above = tl.dot(query, key, begin, out_dtype=tl.int32).to(tl.float32, bitcast=True)
        slope = (step / RANGE)[:, None]
        shift = (offered - ZERO)[:, None] / -RANGE - slope * WHOLE
        if SATURATES:
            power = tl.inline_asm_elementwise(
                "fma.rn.sat.f32 $0, $1, $2, $3;", "=f,f,f,f", [above, slope, shift],
                dtype=tl.float32, is_pure=True, pack=1,
            )  # fmt: skip
        else:
            power = tl.minimum(tl.maximum(above * slope + shift, 0.0), 1.0)
        bits = (power * (RANGE * STEPS) + WHOLE).to(tl.int32, bitcast=True)
        return (bits << SHORT_OF).to(tl.float32, bitcast=True)
    if PLANES == 2:
        whole = tl.dot(query, key, out_dtype=tl.int32) * PLANE + tl.dot(second, key, out_dtype=tl.int32)
        score = whole.to(tl.float32) * step[:, None] * scale.to(tl.float32)[None, :]
    else:
        score = tl.dot(query, key, input_precision=PRECISION)
    return tl.where(here[None, :], tl.exp2(tl.minimum(score - offered[:, None], LIMIT)), 0.0)


@triton.jit(
    do_not_specialize=["num_voters", "num_events", "num_queries", "events"],
    do_not_specialize_on_alignment=["starts", "lengths", "inverse"],
)
def _event_shares(
    keys: tl.tensor, scales: tl.tensor, starts: tl.tensor, lengths: tl.tensor, rows: tl.tensor,
    queries: tl.tensor, context: tl.tensor, inverse: tl.tensor, out: tl.tensor,
    num_voters: tl.tensor, num_events: tl.tensor, num_queries: tl.tensor, events: tl.tensor,
    row_stride: tl.tensor, scale_stride: tl.tensor,
    D: tl.constexpr, PADDED_D: tl.constexpr, Q: tl.constexpr, T: tl.constexpr,
    PLANES: tl.constexpr, LIMIT: tl.constexpr, KIND: tl.constexpr, PRECISION: tl.constexpr, SATURATES: tl.constexpr,
) -> None:  # fmt: skip
    """`out[chunk, voter, event]`: what a chunk's queries add to the mean share."""
    voter, chunk = tl.program_id(0) % num_voters, tl.program_id(1)
    first = tl.program_id(0) // num_voters * events
    row, d = tl.load(rows + voter).to(tl.int64), tl.arange(0, PADDED_D)
    query, second, step, offered, live = _asked(
        queries, context, voter, chunk, num_queries, D, PADDED_D, Q, KIND, PLANES
    )
    fraction = tl.load(inverse)
    keys += row * row_stride
    scales += row * scale_stride
    out += (chunk * num_voters + voter).to(tl.int64) * num_events
    for event in range(first, tl.minimum(first + events, num_events)):
        start, length = tl.load(starts + event), tl.load(lengths + event)
        total = 0.0
        mass = tl.zeros([Q], dtype=tl.float32)
        for at in range(0, length, T):
            here = at + tl.arange(0, T) < length
            token = start + at + tl.arange(0, T)
            key = tl.load(keys + token[None, :] * D + d[:, None], mask=here[None, :] & (d < D)[:, None], other=0)
            scale = step
            if PLANES == 2:
                scale = tl.load(scales + token, mask=here, other=0.0)
            part = _mass(query, second, step, offered, key, scale, here, LIMIT, PLANES, PRECISION, SATURATES)
            mass += tl.sum(part, 1)
        if length > 0:
            total = tl.sum(tl.where(live, mass / (1 + mass), 0.0), 0) * fraction
        tl.store(out + event, total)


@triton.jit(
    do_not_specialize=["num_voters", "num_events", "null_stride"],
    do_not_specialize_on_alignment=["null_shares", "lengths", "slots"],
)
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
    events: int | None = None,
    tokens: int = TOKENS,
) -> torch.Tensor:
    """See `v14.kernels.votes.event_shares`. `max_queries` and `tokens` are powers of two from 32 on; `events` go to one
    program, by default fewer where there are few."""
    (num_voters, num_queries, dim), num_events = asked.queries.shape, len(starts)
    padded, num_chunks = _chunks(num_queries, max_queries)
    out = torch.empty(num_chunks, num_voters, num_events, device=keys.device)
    if num_events == 0:
        return out[0]
    events = events or (EVENTS if num_events > FEW_EVENTS else 4)
    _event_shares[num_voters * triton.cdiv(num_events, events), num_chunks](
        keys, keys if scales is None else scales, starts, lengths, asked.rows,
        asked.queries.contiguous(), asked.context.contiguous(), asked.inverse, out,
        num_voters, num_events, num_queries, events, keys.stride(0), 0 if scales is None else scales.stride(0),
        D=dim, Q=padded, T=tokens, **_how(keys, scales, padded, dim),
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


def _chunks(num_queries: int, max_queries: int) -> tuple[int, int]:
    """Queries of one program, padded, and how many programs take them all."""
    padded = min(max_queries, _padded(num_queries))
    return padded, triton.cdiv(num_queries, padded)


def _how(keys: torch.Tensor, scales: torch.Tensor | None, num_queries: int, dim: int) -> dict[str, Any]:
    """How keys are multiplied, and what the kernel is compiled for."""
    padded, planes = _padded(dim), 0 if keys.dtype != torch.int8 else 1 if scales is None else 2
    how = {
        "PADDED_D": padded,
        "PLANES": planes,
        "LIMIT": MAX_EXPONENT * LOG2_E.value,
        "KIND": KINDS[keys.dtype],
        "PRECISION": "tf32x3" if keys.dtype == torch.float32 else "tf32",
        # The interpreter knows no instructions of a GPU.
        "SATURATES": keys.is_cuda,
        "num_warps": max(1, num_queries // WARP_QUERIES),
        "num_stages": 1 if padded > WIDE else 3,
    }
    if planes == 1:
        # Few registers, many programs at once (LOG.md, "three stages").
        how |= {"num_stages": 1, "maxnreg": 64} if padded == NARROW else {"num_stages": 2, "maxnreg": 80}
    return how


def _padded(size: int) -> int:
    """The next power of two that a product of tiles takes."""
    return max(32, 1 << (size - 1).bit_length())
