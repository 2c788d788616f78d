"""Which of a prompt's words a vote rests on."""

from collections.abc import Sequence

import torch

from v14.kernels.votes import MAX_EXPONENT
from v14.recall.voters import Voters
from v14.recall.votes import SHARE_FLOOR
from v14.types import Cue


def token_weights(
    cue: Cue,
    keys: torch.Tensor,
    lengths: Sequence[int],
    rows: torch.Tensor,
    scaling: Sequence[float],
    voters: Voters,
) -> torch.Tensor:
    """How much each token of the cue gives to each event's vote, `[n, Q]` fp32; below 0 where it speaks against it.

    keys: `[U, sum of lengths, D]`, the voter keys of n events behind each other; rows: `[V]` int64, for each voter its
    place in U (`Voters.key_rows`); scaling: per voter (`votes.scalings`). Computed where the keys are. A vote is a
    function of the mean shares of attention; a token's weight is its part of each mean times the slope of the vote
    there. Where calibration subtracts, the vote is linear and the weights add up to it plus what the content-free cue's
    share took away.
    """
    on = keys.device
    queries = cue.queries.to(on).float() * torch.tensor(scaling, device=on)[:, None, None]
    relative = queries @ keys[rows.to(on)].float().transpose(1, 2) - cue.context_lse.to(on)[..., None]
    numbers = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    owners = torch.nn.functional.one_hot(numbers, len(lengths)).float().to(on)
    mass = relative.clamp_(-MAX_EXPONENT, MAX_EXPONENT).exp_() @ owners
    share = mass / (1 + mass)
    slope = torch.tensor(voters.weights, device=on)[:, None].expand(-1, len(lengths))
    if voters.calibration == "log-ratio":
        slope = slope / (share.mean(1) + SHARE_FLOOR)
    return torch.einsum("vn,vqn->nq", slope, share) / share.shape[1]
