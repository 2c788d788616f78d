"""The share of a cue's attention that each of many events would take, at each voter: one pass over their keys.

naive.py    event by event, voter by voter, token by token of the cue
packed.py   row by row, for a CPU
triton.py   all events and voters at once, on a GPU

Shapes: U rows of keys, V voters, Q tokens of the cue, D dimension of a head, N events that lie somewhere among T
tokens, each of them `lengths[n]` tokens from `starts[n]` on; an event of length 0 takes nothing. What no event covers
is never read.
"""

from typing import NamedTuple

import torch


class Asked(NamedTuple):
    """A cue as the kernels take it, on the keys' device.

    queries: `[V, Q, D]` fp32, multiplied by what scales the scores and turned as the keys are; context: `[V, Q]` fp32,
    natural log-sum-exp of the scores that the prompt itself offers, less what the keys' turning took off every score;
    rows: `[V]` int32, each voter's row in U; inverse: `[1]` fp32, one over the number of the cue's tokens. Tokens whose
    context is infinite ask for nothing and are not among that number.
    """

    queries: torch.Tensor
    context: torch.Tensor
    rows: torch.Tensor
    inverse: torch.Tensor

    def of(self, voters: torch.Tensor | slice) -> "Asked":
        """The same of some voters, places in V."""
        return Asked(self.queries[voters], self.context[voters], self.rows[voters], self.inverse)


MAX_EXPONENT = 80.0
"""Scores further than this from the context's count as this far: the share is 0 or 1 in fp32 long before, and exp
neither overflows nor gives the denormal numbers that processors are slow at."""


def event_shares(
    keys: torch.Tensor, scales: torch.Tensor | None, starts: torch.Tensor, lengths: torch.Tensor, asked: Asked
) -> torch.Tensor:
    """Mean attention share of each event at each voter, `[V, N]` fp32 in [0, 1].

    keys: `[U, T, D]`, of any floating dtype, or int8 with `scales` `[U, T]` in fp16 or fp32 that multiply them; int8
    without are sketches (`v14.recall.sketch`), for which queries may be rounded to 8 bits. starts: `[N]` int64;
    lengths: `[N]` int32.
    """
    if keys.is_cuda:
        from v14.kernels.votes import triton  # not everybody who has no GPU has Triton

        return triton.event_shares(keys, scales, starts, lengths, asked)
    from v14.kernels.votes import packed

    return packed.event_shares(keys, scales, starts, lengths, asked)


def tally(
    shares: torch.Tensor,
    null_shares: torch.Tensor,
    lengths: torch.Tensor,
    slots: torch.Tensor | None,
    voters: torch.Tensor,
    weights: torch.Tensor,
    floor: float | None,
) -> torch.Tensor:
    """Votes `[n]` fp32 of the events in some slots of a page (None: its first n), −inf where one has length 0.

    A vote is the sum over v of `weights[voters[v]]` times what is left of a share without the null share: the natural
    log of (share + floor) / (null share + floor), or their difference where `floor` is None. shares: `[v, n]`;
    null_shares: `[V, E]` and lengths: `[E]` by slot; slots: `[n]` int64; voters: `[v]` int32; weights: `[V]` fp32.
    """
    if shares.is_cuda:
        from v14.kernels.votes import triton

        return triton.tally(shares, null_shares, lengths, slots, voters, weights, floor)
    from v14.kernels.votes import packed

    return packed.tally(shares, null_shares, lengths, slots, voters, weights, floor)
