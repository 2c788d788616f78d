"""The plain version, in fp32."""

import torch

from v14.kernels.votes import MAX_EXPONENT, Asked


def event_shares(
    keys: torch.Tensor, scales: torch.Tensor | None, starts: torch.Tensor, lengths: torch.Tensor, asked: Asked
) -> torch.Tensor:
    """See `v14.kernels.votes.event_shares`."""
    shares = torch.zeros(len(asked.queries), len(starts), device=keys.device)
    for event, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        for voter, row in enumerate(asked.rows.tolist()):
            own = keys[row, start : start + length].float()
            if scales is not None:
                own = own * scales[row, start : start + length, None].float()
            for query, context in zip(asked.queries[voter], asked.context[voter], strict=True):
                mass = (own @ query - context).clamp(-MAX_EXPONENT, MAX_EXPONENT).exp().sum()
                shares[voter, event] += mass / (1 + mass) * asked.inverse[0]
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
    votes = torch.zeros(shares.shape[1], device=shares.device)
    for event, slot in enumerate(range(len(votes)) if slots is None else slots.tolist()):
        for share, voter in zip(shares[:, event], voters.tolist(), strict=True):
            null = null_shares[voter, slot]
            left = share - null if floor is None else (share + floor).log() - (null + floor).log()
            votes[event] += weights[voter] * left
        if not lengths[slot]:
            votes[event] = -torch.inf
    return votes
