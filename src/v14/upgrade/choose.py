"""Choosing voters: few heads, a weight for each, and the floor, from what was measured.

A vote is linear in the heads' calibrated shares, so the weights are those of a multinomial logistic regression: for a
question with a right event, the softmax over all events' votes and one constant (the bar, "recall nothing") should pick
that event; for a question about nothing stored, the bar. Weights may be negative: such heads see what a mere look-alike
has in common with the question (its wording, say) and are subtracted, which is most of what separates small models.
Heads are dropped by the size of their weight, refitting each time, until few are left.

Everything reported, and the floor, comes from two-fold cross-validation over kinds of facts: votes on questions of
kinds that the voters of that fold were not chosen on. The voters delivered are then fitted to all of the set.
"""

from dataclasses import dataclass
from typing import Any

import torch

from v14.recall.voters import Voters
from v14.recall.votes import CALIBRATIONS, calibrate
from v14.types import Cue
from v14.upgrade.measure import Measurement

SIZES = (96, 48, 32, 24, 16)
"""Numbers of heads on the way down; those of `NUM_VOTERS` are candidates."""

NUM_VOTERS = (48, 32, 24, 16)
RIDGE = 0.03
"""Penalty on squared weights (of standardised heads)."""

CONSERVATIVE = 0.01
"""How far above every unrelated question's best vote (in log odds) the floor of voters that do not separate lies."""

NEVER = -1e9


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """Heads (places among the measured ones), their weights, and the bar that a vote should pass."""

    heads: torch.Tensor
    weights: torch.Tensor
    bar: float

    def votes(self, calibrated: torch.Tensor) -> torch.Tensor:
        """Votes `[M, N]` less the bar."""
        return calibrated[..., self.heads] @ self.weights - self.bar


@dataclass(frozen=True, kw_only=True)
class Separation:
    """How well votes on questions of kinds not chosen on tell right from wrong (shares of 1, but for the counts)."""

    top1: float
    top5: float
    auc: float
    kept: float
    recalling: float

    @property
    def good(self) -> bool:
        """Whether the voters separate well enough to trust a floor between right and wrong."""
        return self.auc >= 0.9 and self.kept >= 0.6


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """The voters, the floor in votes, and what was measured; `votes` `[M, N]` are out of fold, in the same unit."""

    voters: Voters
    floor: float
    separation: Separation
    votes: torch.Tensor
    measured: dict[str, Any]


def choose(measurement: Measurement) -> Choice:
    """Compare calibrations and numbers of voters out of fold, keep the best, and fit it to everything.

    Strangers choose nothing here, but have votes.
    """
    candidates = []
    familiar = measurement.familiar()
    known = ~measurement.strangers
    for calibration in CALIBRATIONS:
        calibrated = calibrate(measurement.shares, measurement.null_shares, calibration)
        folds = [
            _descend(measurement, calibrated, known & ~measurement.held_out),
            _descend(measurement, calibrated, known & measurement.held_out),
        ]
        for size in NUM_VOTERS:
            margins = torch.where(
                measurement.held_out[:, None], folds[0][size].votes(calibrated), folds[1][size].votes(calibrated)
            )
            offset = _floor(familiar, margins[known])
            bars = torch.where(measurement.held_out, folds[0][size].bar, folds[1][size].bar)
            found = separation(familiar, margins[known], offset)
            candidates.append((calibration, size, margins, bars, offset, found))
    # Fewer voters are cheaper to store and to vote with: more must be worth a question or two.
    calibration, size, margins, bars, offset, found = max(
        candidates, key=lambda c: c[5].kept + c[5].auc + 0.2 * c[5].top5 - 0.001 * c[1]
    )
    calibrated = calibrate(measurement.shares, measurement.null_shares, calibration)
    final = _descend(measurement, calibrated, known)[size]
    if not found.good:
        offset = float(_best(familiar, margins[known])[familiar.asked < 0].max()) + CONSERVATIVE
        found = separation(familiar, margins[known], offset)
    # The unit of a vote is what the floor asks for, so that every model's floor is 1 (a bar below 0 cannot be a unit).
    floor = final.bar + offset
    unit = floor if floor > 0 else 1.0
    return Choice(
        voters=_voters(measurement, final, unit, calibration, calibrated),
        floor=floor / unit,
        separation=found,
        votes=(margins + bars[:, None]) / (bars + offset).clamp_min(1e-3)[:, None],
        measured={
            "calibration": calibration,
            "num_voters": len(final.heads),
            "candidates": [
                {"calibration": c[0], "num_voters": c[1], **{k: round(v, 3) for k, v in vars(c[5]).items()}}
                for c in candidates
            ],
        },
    )


def separation(measurement: Measurement, votes: torch.Tensor, floor: float) -> Separation:
    """Figures of votes `[M, N]`. `kept`: questions whose right event passes the floor among the first five;
    `recalling`: questions about nothing stored for which any event passes it."""
    asks = measurement.asked >= 0
    best = _best(measurement, votes)
    right = _right(measurement, votes)
    ahead = (votes.masked_fill(~measurement.allowed, NEVER) > right[:, None]).sum(1)
    return Separation(
        top1=_share(ahead[asks] == 0),
        top5=_share(ahead[asks] < 5),
        auc=_share(right[asks][:, None] > best[~asks][None]),
        kept=_share((right[asks] >= floor) & (ahead[asks] < 5)),
        recalling=_share(best[~asks] >= floor),
    )


def targets(measurement: Measurement) -> torch.Tensor:
    """`[M, N]` bool: the event that a question should recall."""
    return (measurement.asked[:, None] == measurement.facts) & (measurement.asked[:, None] >= 0)


def _descend(measurement: Measurement, calibrated: torch.Tensor, chosen: torch.Tensor) -> dict[int, Fit]:
    """Fits of all `SIZES` on the questions `chosen`, each on the strongest heads of the one before."""
    scale = calibrated[chosen].flatten(0, 1).std(0).clamp_min(1e-6)
    heads = torch.arange(calibrated.shape[2])
    fits = {}
    fit = _fit(measurement, calibrated, chosen, heads, scale)
    for size in SIZES:
        if size < len(heads):
            heads = heads[(fit.weights * scale[heads]).abs().topk(size).indices].sort().values
            fit = _fit(measurement, calibrated, chosen, heads, scale)
        fits[size] = fit
    return fits


def _fit(
    measurement: Measurement, calibrated: torch.Tensor, chosen: torch.Tensor, heads: torch.Tensor, scale: torch.Tensor
) -> Fit:
    """Ridge-penalised multinomial logistic regression; right events and nothing-to-recall weigh the same in all."""
    features = calibrated[chosen][:, :, heads] / scale[heads]
    allowed, right = measurement.allowed[chosen], targets(measurement)[chosen]
    asks = measurement.asked[chosen] >= 0
    balance = torch.where(asks, 0.5 / asks.sum(), 0.5 / (~asks).sum())
    weights = torch.full((len(heads),), 0.1, requires_grad=True)
    bar = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bar], max_iter=80, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        votes = (features @ weights).masked_fill(~allowed, NEVER)
        everything = torch.cat([votes, bar.expand(len(votes), 1)], dim=1).logsumexp(1)
        wanted = torch.where(asks, votes.masked_fill(~right, NEVER).logsumexp(1), bar)
        loss = ((everything - wanted) * balance).sum() + RIDGE * weights.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return Fit(heads=heads, weights=weights.detach() / scale[heads], bar=float(bar.detach()))


def _floor(measurement: Measurement, votes: torch.Tensor) -> float:
    """What at most one in twenty questions about nothing stored passes; where nineteen in twenty right events pass
    more than that, halfway between the two."""
    asks = measurement.asked >= 0
    wrong = float(_best(measurement, votes)[~asks].quantile(0.95))
    right = float(_right(measurement, votes)[asks].quantile(0.05))
    return max(wrong, (wrong + right) / 2)


def _voters(measurement: Measurement, fit: Fit, unit: float, calibration: str, calibrated: torch.Tensor) -> Voters:
    places = fit.heads.tolist()
    return Voters(
        heads=tuple(measurement.heads[place] for place in places),
        weights=tuple((fit.weights / unit).tolist()),
        calibration=calibration,
        null=Cue(
            queries=measurement.null.queries[fit.heads].clone(),
            context_lse=measurement.null.context_lse[fit.heads].clone(),
        ),
        sinks=tuple(measurement.sinks[place] for place in places) if measurement.sinks else (),
        spread=tuple(calibrated[..., fit.heads].flatten(0, 1).std(0).tolist()),
    )


def _best(measurement: Measurement, votes: torch.Tensor) -> torch.Tensor:
    return votes.masked_fill(~measurement.allowed, NEVER).amax(1)


def _right(measurement: Measurement, votes: torch.Tensor) -> torch.Tensor:
    return votes.masked_fill(~targets(measurement), NEVER).amax(1)


def _share(truths: torch.Tensor) -> float:
    return float(truths.float().mean())
