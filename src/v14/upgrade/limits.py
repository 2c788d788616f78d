"""Choosing what a plan asks of its events, from the out-of-fold votes of the calibration and the words of its texts.

Wrong events in front of a question confuse small models, a missing right one leaves them without an answer, and what
nobody told should recall nothing. Strengths are those that plans rank by (`v14.recall.associations.strength`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from v14.config import Options
from v14.recall.associations import leads, strength
from v14.recall.order import SAME
from v14.recall.terms import Overlap, Terms
from v14.recall.weighing import DISTINCT, DISTINCT_VOTE
from v14.types import Event
from v14.upgrade.choose import NEVER, Choice, targets
from v14.upgrade.measure import Measurement

MAX_EVENTS: int = Options.model_fields["recall_max_events"].default
SURE: float = Options.model_fields["recall_sure"].default
LINKED: float = Options.model_fields["recall_linked"].default

RATIOS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85)
TOLERANCE = 0.02
"""The strictest ratio is taken that loses at most this share of the right events that the laxest one recalls."""

SURENESS = tuple(step / 4 for step in range(25))
STRANGERS_RECALLING = 0.05
MOST_LOST = 0.1
SURE_RANGE = (5.0, 5.75)
"""How sure a plan has to be: so that at most so many strangers recall anything, unless that loses more right events
than this share; within this range, which names of real people want
(LOG.md, "pairs of tokens"): those of a calibration set are few."""

LINKED_AMONG = 0.9
LINKED_RANGE = (2.5, 3.5)
"""What leads on from a right event that leaves nothing open is by chance: this quantile of it is the least strength of
a link, within this range."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Thresholds and what they give: the share of questions with the right event in the plan, wrong events per plan,
    the share of strangers that recall anything."""

    ratio: float
    sure: float
    linked: float
    right_in_plan: float
    wrong_in_plan: float
    strangers_recalling: float


def choose_limits(
    measurement: Measurement, choice: Choice, asks: Callable[[Event], bool] = lambda event: False
) -> Limits:
    """The limits for plans of at most `MAX_EVENTS` events; `asks` says whether an event only asks."""
    terms = Terms()
    for event in measurement.events:
        terms.add(event.id, event.body)
    overlaps = [Overlap([terms], prompt) for prompt in measurement.prompts]
    strengths = _strengths(measurement, choice, asks, overlaps)
    right = targets(measurement)
    second = _second(measurement, strengths, overlaps)
    sure = _sure(measurement, choice, strengths, second)
    recalled = {ratio: _recalled(choice, strengths, second, ratio, sure) for ratio in RATIOS}
    kept = {ratio: _share((plan & right).any(1)[measurement.asked >= 0]) for ratio, plan in recalled.items()}
    ratio = max(ratio for ratio in RATIOS if kept[ratio] >= max(kept.values()) - TOLERANCE)
    asked = measurement.asked >= 0
    strangers = measurement.strangers
    return Limits(
        ratio=ratio,
        sure=sure,
        linked=_linked(measurement, overlaps),
        right_in_plan=kept[ratio],
        wrong_in_plan=float((recalled[ratio] & ~right)[asked].sum(1).float().mean()),
        strangers_recalling=_share(recalled[ratio].any(1)[strangers]) if strangers.any() else 0.0,
    )


def _strengths(
    measurement: Measurement, choice: Choice, asks: Callable[[Event], bool], overlaps: list[Overlap]
) -> torch.Tensor:
    """`[M, N]`, `NEVER` where an event cannot be recalled."""
    telling = torch.tensor([not asks(event) for event in measurement.events])
    rows = [
        [strength(vote, overlap.asked(event.id), 1.0) for vote, event in zip(votes, measurement.events, strict=True)]
        for votes, overlap in zip(choice.votes.tolist(), overlaps, strict=True)
    ]
    return torch.tensor(rows).masked_fill(~(measurement.allowed & telling), NEVER)


def _second(measurement: Measurement, strengths: torch.Tensor, overlaps: list[Overlap]) -> torch.Tensor:
    """`[M]`: for each question the strength of the best event that tells of something else than the best one does."""
    values, places = strengths.sort(1, descending=True)
    ids = [event.id for event in measurement.events]
    second = torch.zeros(len(values))
    for row, overlap in enumerate(overlaps):
        best, *others = places[row].tolist()
        other = (rank for rank, place in enumerate(others, 1) if overlap.sameness(ids[best], ids[place]) < SAME)
        second[row] = values[row, next(other, 0)]
    return second


def _sure(measurement: Measurement, choice: Choice, strengths: torch.Tensor, second: torch.Tensor) -> float:
    """The least sureness at which few strangers recall anything, as long as it loses few right events."""
    if not measurement.strangers.any():
        return SURE
    asked, strangers = measurement.asked >= 0, measurement.strangers
    right = targets(measurement)
    found = {sure: _recalled(choice, strengths, second, 0.0, sure) for sure in SURENESS}
    kept = {sure: _share((plan & right).any(1)[asked]) for sure, plan in found.items()}
    possible = [sure for sure in SURENESS if kept[sure] >= (1 - MOST_LOST) * kept[0.0]]
    quiet = [sure for sure in possible if _share(found[sure].any(1)[strangers]) <= STRANGERS_RECALLING]
    least, most = SURE_RANGE
    return min(most, max(least, quiet[0] if quiet else possible[-1]))


def _recalled(choice: Choice, strengths: torch.Tensor, second: torch.Tensor, ratio: float, sure: float) -> torch.Tensor:
    """`[M, N]` bool: the events of each plan."""
    best, place = strengths.max(1)
    votes = choice.votes.masked_fill(strengths < choice.floor, NEVER)
    bar = (best * ratio).clamp_min(choice.floor)
    rank = strengths.argsort(1, descending=True).argsort(1)
    distinct = (second <= DISTINCT * best) & (votes.gather(1, place[:, None])[:, 0] >= DISTINCT_VOTE)
    recalling = ((best >= sure) | distinct) & (votes.amax(1) >= choice.floor)
    return (strengths >= bar[:, None]) & (rank < MAX_EVENTS) & recalling[:, None]


def _linked(measurement: Measurement, overlaps: list[Overlap]) -> float:
    right = targets(measurement)
    by_chance = []
    for row, overlap in enumerate(overlaps):
        for place in right[row].nonzero().flatten().tolist()[:1]:
            led = leads([measurement.events[place].id], (), overlap)
            by_chance.append(led[0].strength if led else 0.0)
    if not any(by_chance):
        return LINKED
    least, most = LINKED_RANGE
    return min(most, max(least, round(float(torch.tensor(by_chance).quantile(LINKED_AMONG)), 2)))


def _share(truths: torch.Tensor) -> float:
    return float(truths.float().mean())
