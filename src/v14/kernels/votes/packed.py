"""In PyTorch alone, for a CPU: a row's keys times all queries that read it, some thousand tokens at a time, and sums
over each event."""

from collections.abc import Iterator

import torch

from v14.kernels.votes import MAX_EXPONENT, Asked

CHUNK_SCORES = 1 << 20
"""Scores computed at once (fp32), so that votes need megabytes beside the keys, whatever the number of events."""


def event_shares(
    keys: torch.Tensor, scales: torch.Tensor | None, starts: torch.Tensor, lengths: torch.Tensor, asked: Asked
) -> torch.Tensor:
    """See `v14.kernels.votes.event_shares`."""
    num_voters, num_queries, dim = asked.queries.shape
    shares = torch.zeros(num_voters, len(starts), device=keys.device)
    for row, voters in _by_row(asked.rows.tolist()).items():
        queries = asked.queries[voters].reshape(-1, dim)
        context = asked.context[voters].reshape(-1)
        for some in _chunks(lengths, max(1, CHUNK_SCORES // len(queries))):
            tokens, bags = _tokens(starts[some], lengths[some])
            own = keys[row, tokens].float()
            if scales is not None:
                own *= scales[row, tokens, None].float()
            relative = torch.addmm(-context, own, queries.T).clamp_(-MAX_EXPONENT, MAX_EXPONENT).exp_()
            # Sums over runs of rows: a bag for each event.
            mass = torch.nn.functional.embedding_bag(
                torch.arange(len(relative), device=keys.device), relative, bags, mode="sum"
            )
            share = mass.div_(1 + mass).view(-1, len(voters), num_queries).sum(-1)
            shares[voters, some] = share.T * asked.inverse
    return shares


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
    some = slice(0, shares.shape[1]) if slots is None else slots
    null = null_shares[voters, some] if slots is None else null_shares[voters][:, slots]
    left = shares - null if floor is None else (shares + floor).log() - (null + floor).log()
    return (weights[voters] @ left).masked_fill_(lengths[some] == 0, -torch.inf)


def _by_row(rows: list[int]) -> dict[int, list[int]]:
    """The voters that read each row."""
    found: dict[int, list[int]] = {}
    for voter, row in enumerate(rows):
        found.setdefault(row, []).append(voter)
    return found


def _chunks(lengths: torch.Tensor, num_tokens: int) -> Iterator[slice]:
    """Runs of events of about `num_tokens` together."""
    ends = lengths.cumsum(0)
    first = 0
    while first < len(lengths):
        done = int(ends[first - 1]) if first else 0
        end = max(first + 1, int(torch.searchsorted(ends, done + num_tokens, right=True)))
        yield slice(first, end)
        first = end


def _tokens(starts: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor | slice, torch.Tensor]:
    """Where the tokens of events lie, and for each event the first of its own among these."""
    ends = lengths.cumsum(0)
    bags = ends - lengths
    if bool((starts[1:] == starts[:-1] + lengths[:-1]).all()):
        return slice(int(starts[0]), int(starts[0] + ends[-1])), bags
    places = torch.repeat_interleave(starts - bags, lengths) + torch.arange(int(ends[-1]), device=starts.device)
    return places, bags
