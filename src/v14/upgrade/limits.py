"""Choosing `recall_ratio`: what is recalled beside the right event, from the out-of-fold votes of the calibration.

Wrong events in front of a question confuse small models, a missing right one leaves them without an answer. So: the
strictest ratio that loses at most one in fifty of the right events that the laxest one recalls.
"""

from dataclasses import dataclass

import torch

from v14.config import Options
from v14.upgrade.choose import NEVER, Choice, targets
from v14.upgrade.measure import Measurement

MAX_EVENTS: int = Options.model_fields["recall_max_events"].default
RATIOS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
TOLERANCE = 0.02


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A ratio and what it gives: the share of questions with the right event in the plan, wrong events per plan."""

    ratio: float
    right_in_plan: float
    wrong_in_plan: float


def choose_limits(measurement: Measurement, choice: Choice) -> Limits:
    """The ratio for plans of at most `MAX_EVENTS` events."""
    found = [_limits(measurement, choice, ratio) for ratio in RATIOS]
    most = max(limits.right_in_plan for limits in found)
    return [limits for limits in found if limits.right_in_plan >= most - TOLERANCE][-1]


def _limits(measurement: Measurement, choice: Choice, ratio: float) -> Limits:
    asks = measurement.asked >= 0
    votes = choice.votes.masked_fill(~measurement.allowed, NEVER)[asks]
    right = targets(measurement)[asks]
    bar = (votes.amax(1) * ratio).clamp_min(choice.floor)
    rank = votes.argsort(1, descending=True).argsort(1)
    recalled = (votes >= bar[:, None]) & (rank < MAX_EVENTS)
    return Limits(
        ratio=ratio,
        right_in_plan=float((recalled & right).any(1).float().mean()),
        wrong_in_plan=float((recalled & ~right).sum(1).to(torch.float32).mean()),
    )
