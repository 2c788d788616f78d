"""Which of a prompt's words a vote rests on."""

from collections.abc import Sequence

import torch

from v14.recall.voters import Voters
from v14.recall.votes import SHARE_FLOOR, token_shares
from v14.types import Cue


def token_weights(
    cue: Cue, keys: torch.Tensor, rows: Sequence[int], scaling: Sequence[float], voters: Voters
) -> torch.Tensor:
    """How much each token of the cue gives to one event's vote, `[Q]` fp32; below 0 where it speaks against it.

    keys: `[U, T, D]`, the event's voter keys; rows and scaling as for `votes.token_shares`. A vote is a function of the
    mean shares of attention; a token's weight is its part of each mean times the slope of the vote there. Where
    calibration subtracts, the vote is linear and the weights add up to it plus what the content-free cue's share took
    away.
    """
    share = token_shares(cue, keys, rows, scaling)
    slope = torch.tensor(voters.weights)
    if voters.calibration == "log-ratio":
        slope = slope / (share.mean(-1) + SHARE_FLOOR)
    return slope @ share / share.shape[-1]
