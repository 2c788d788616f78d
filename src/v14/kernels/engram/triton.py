"""All events of a prefill at once: one program for each event, head and block of rows.

A program carries its rows of the state from zero through the event, a chunk of tokens at a time, in the WY form that
`v14.engram.gated_delta` derives. What erases is found by the same program: E = I − A / decay = Σ w_t k_tᵀ follows the
delta rule without decay whose values are the keys, E_t = E_{t-1} (I − β_t k_t k_tᵀ) + β_t k_t k_tᵀ.

Decays between two tokens are differences of sums from the chunk's start, as in the engines' own kernels: their error is
fp32's rounding of the chunk's whole log decay, 1e-5 where that is −100.

Shapes in the comments: C tokens of a chunk, R rows of a block, K key dimension (both padded to powers of two).
"""

import torch
import triton
import triton.language as tl

from v14.engram.gated_delta import L2_EPS
from v14.kernels.engram import Events

CHUNK = 32
MAX_ROWS = 64
NUM_WARPS = 4


@triton.jit
def _inverse(lower: tl.tensor, C: tl.constexpr, LEVELS: tl.constexpr, PRECISION: tl.constexpr) -> tl.tensor:
    """(I + lower)⁻¹ of a strictly lower triangular [C, C], C = 2 ** LEVELS.

    Inverses of neighbouring diagonal blocks D₁, D₂ become that of both by −D₂ L D₁ below them, at all places at once:
    forward substitution by blocks, as stable as by rows. (The product of (I + (−L)^(2^i)), which needs as many steps,
    is not: where keys repeat, its powers grow like binomials and cancel.)
    """
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    below = (i % 2 == 1) & (j == i - 1)
    inverse = tl.where(i == j, 1.0, tl.where(below, -lower, 0.0))
    for level in tl.static_range(1, LEVELS):
        below = ((i >> level) % 2 == 1) & (j >> level == (i >> level) - 1)
        left = tl.dot(inverse, tl.where(below, lower, 0.0), input_precision=PRECISION)
        inverse -= tl.dot(left, inverse, input_precision=PRECISION)
    return inverse


@triton.jit
def _gated_delta(
    k: tl.tensor, v: tl.tensor, g: tl.tensor, beta: tl.tensor, bounds: tl.tensor, decay: tl.tensor, out: tl.tensor,
    k_token: tl.tensor, k_head: tl.tensor, v_token: tl.tensor, v_head: tl.tensor,
    g_token: tl.tensor, beta_token: tl.tensor,
    N: tl.constexpr, GROUP: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
    C: tl.constexpr, R: tl.constexpr, PADDED_K: tl.constexpr, LEVELS: tl.constexpr,
    ERASE: tl.constexpr, NORMALISE: tl.constexpr, EPS: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """Rows of `out[event, head]`, [P, K]: what the event writes, or where ERASE, what it erases (v is k, P is K)."""
    event, head = tl.program_id(0) // N, tl.program_id(0) % N
    rows, columns = tl.program_id(1) * R + tl.arange(0, R), tl.arange(0, PADDED_K)
    start, end = tl.load(bounds + event), tl.load(bounds + event + 1)
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    k += head // GROUP * k_head
    v += head // GROUP * v_head if ERASE else head * v_head
    state = tl.zeros([R, PADDED_K], dtype=tl.float32)
    log_decay = 0.0
    for chunk in range(start, end, C):
        token = chunk + tl.arange(0, C)
        live = token < end
        token = token.to(tl.int64)
        keys = tl.load(
            k + token[:, None] * k_token + columns[None, :], mask=live[:, None] & (columns < K)[None, :], other=0.0
        ).to(tl.float32)
        values = tl.load(
            v + token[:, None] * v_token + rows[None, :], mask=live[:, None] & (rows < P)[None, :], other=0.0
        ).to(tl.float32)
        if NORMALISE:
            length = tl.rsqrt(tl.sum(keys * keys, 1) + EPS)
            keys *= length[:, None]
            if ERASE:
                values *= length[:, None]
        strength = tl.load(beta + token * beta_token + head, mask=live, other=0.0).to(tl.float32)
        overlap = tl.dot(keys, tl.trans(keys), input_precision=PRECISION)
        seen = tl.dot(keys, tl.trans(state), input_precision=PRECISION)
        if not ERASE:
            step = tl.load(g + token * g_token + head, mask=live, other=0.0).to(tl.float32)
            until, whole = tl.cumsum(step, 0), tl.sum(step, 0)
            overlap *= tl.exp(tl.where(i >= j, until[:, None] - until[None, :], 0.0))
            seen *= tl.exp(until)[:, None]
        inverse = _inverse(tl.where(i > j, strength[:, None] * overlap, 0.0), C, LEVELS, PRECISION)
        new = tl.dot(inverse, strength[:, None] * (values - seen), input_precision=PRECISION)
        if not ERASE:
            new *= tl.exp(whole - until)[:, None]
            state *= tl.exp(whole)
            log_decay += whole
        state += tl.dot(tl.trans(new), keys, input_precision=PRECISION)
    out += tl.program_id(0).to(tl.int64) * P * K
    tl.store(out + rows[:, None] * K + columns[None, :], state, mask=(rows < P)[:, None] & (columns < K)[None, :])
    if not ERASE:
        tl.store(decay + tl.program_id(0), tl.exp(log_decay), mask=tl.program_id(1) == 0)


@triton.jit
def _mamba2(
    x: tl.tensor, b: tl.tensor, dt: tl.tensor, a: tl.tensor, bounds: tl.tensor, decay: tl.tensor, out: tl.tensor,
    x_token: tl.tensor, x_head: tl.tensor, b_token: tl.tensor, b_group: tl.tensor, dt_token: tl.tensor,
    N: tl.constexpr, GROUP: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
    C: tl.constexpr, R: tl.constexpr, PADDED_K: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """Rows of what an event writes, `out[event, head]`, [P, K]."""
    event, head = tl.program_id(0) // N, tl.program_id(0) % N
    rows, columns = tl.program_id(1) * R + tl.arange(0, R), tl.arange(0, PADDED_K)
    start, end = tl.load(bounds + event), tl.load(bounds + event + 1)
    rate = tl.load(a + head).to(tl.float32)
    x += head * x_head
    b += head // GROUP * b_group
    state = tl.zeros([R, PADDED_K], dtype=tl.float32)
    log_decay = 0.0
    for chunk in range(start, end, C):
        token = chunk + tl.arange(0, C)
        live = token < end
        token = token.to(tl.int64)
        keys = tl.load(
            b + token[:, None] * b_token + columns[None, :], mask=live[:, None] & (columns < K)[None, :], other=0.0
        ).to(tl.float32)
        values = tl.load(
            x + token[:, None] * x_token + rows[None, :], mask=live[:, None] & (rows < P)[None, :], other=0.0
        ).to(tl.float32)
        step = tl.load(dt + token * dt_token + head, mask=live, other=0.0).to(tl.float32)
        until, whole = tl.cumsum(step, 0) * rate, tl.sum(step, 0) * rate
        values *= (step * tl.exp(whole - until))[:, None]
        state = state * tl.exp(whole) + tl.dot(tl.trans(values), keys, input_precision=PRECISION)
        log_decay += whole
    out += tl.program_id(0).to(tl.int64) * P * K
    tl.store(out + rows[:, None] * K + columns[None, :], state, mask=(rows < P)[:, None] & (columns < K)[None, :])
    tl.store(decay + tl.program_id(0), tl.exp(log_decay), mask=tl.program_id(1) == 0)


def gated_delta_events(
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    bounds: torch.Tensor,
    *,
    normalise: bool = False,
    chunk: int = CHUNK,
    max_rows: int = MAX_ROWS,
    num_warps: int = NUM_WARPS,
    precision: str = "",
) -> Events:
    """See `v14.kernels.engram.gated_delta_events`. `chunk` and `max_rows` are powers of two from 16 on; `precision` is
    Triton's name for how products are rounded (default: by the keys' dtype)."""
    k, v, g, beta = (_dense_last(tensor) for tensor in (k, v, g, beta))
    num_events, (_, num_heads, value_dim), key_dim = bounds.shape[0] - 1, v.shape, k.shape[2]
    decay = torch.empty(num_events, num_heads, device=k.device)
    erase = torch.empty(num_events, num_heads, key_dim, key_dim, device=k.device)
    write = torch.empty(num_events, num_heads, value_dim, key_dim, device=k.device)
    for values, out in ((v, write), (k, erase)):
        num_rows = out.shape[2]
        rows = min(max_rows, _padded(num_rows))
        _gated_delta[num_events * num_heads, triton.cdiv(num_rows, rows)](
            k, values, g, beta, bounds, decay, out,
            k.stride(0), k.stride(1), values.stride(0), values.stride(1), g.stride(0), beta.stride(0),
            N=num_heads, GROUP=num_heads // k.shape[1], K=key_dim, P=num_rows,
            C=chunk, R=rows, PADDED_K=_padded(key_dim), LEVELS=chunk.bit_length() - 1,
            ERASE=out is erase, NORMALISE=normalise, EPS=L2_EPS, PRECISION=precision or _precision(k),
            num_warps=num_warps, num_stages=1,
        )  # fmt: skip
    return Events(decay, erase, write)


def mamba2_events(
    x: torch.Tensor,
    b: torch.Tensor,
    dt: torch.Tensor,
    a: torch.Tensor,
    bounds: torch.Tensor,
    *,
    chunk: int = CHUNK,
    max_rows: int = MAX_ROWS,
    num_warps: int = NUM_WARPS,
    precision: str = "",
) -> Events:
    """See `v14.kernels.engram.mamba2_events`; the options as in `gated_delta_events`."""
    x, b, dt, a = (_dense_last(tensor) for tensor in (x, b, dt, a))
    num_events, (_, num_heads, value_dim), key_dim = bounds.shape[0] - 1, x.shape, b.shape[2]
    decay = torch.empty(num_events, num_heads, device=x.device)
    write = torch.empty(num_events, num_heads, value_dim, key_dim, device=x.device)
    rows = min(max_rows, _padded(value_dim))
    _mamba2[num_events * num_heads, triton.cdiv(value_dim, rows)](
        x, b, dt, a, bounds, decay, write,
        x.stride(0), x.stride(1), b.stride(0), b.stride(1), dt.stride(0),
        N=num_heads, GROUP=num_heads // b.shape[1], K=key_dim, P=value_dim,
        C=chunk, R=rows, PADDED_K=_padded(key_dim), PRECISION=precision or _precision(b),
        num_warps=num_warps, num_stages=1,
    )  # fmt: skip
    return Events(decay, None, write)


def _precision(keys: torch.Tensor) -> str:
    """One tf32 product (10 bits) rounds finer than bfloat16 inputs were (7 bits); three are about as good as fp32."""
    return "tf32x3" if keys.dtype == torch.float32 else "tf32"


def _dense_last(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself where its last dimension lies densely in memory, as slices of an engine's projections do."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _padded(size: int) -> int:
    """The next power of two that a product of tiles takes."""
    return max(16, 1 << (size - 1).bit_length())
