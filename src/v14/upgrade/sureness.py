"""How sure a plan has to be: what counts how much of an event, fitted to the questions of a second set, and from which
odds on few questions about what nothing was told of recall anything.

A question picks one event, or nothing: the weights are those of a multinomial logistic regression over what can be
recalled and a constant, as for voters (`upgrade.choose`). No voter was chosen with these questions. What the rarest
open word and the end of the question say is weighed only where that finds more on questions that were not fitted to.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from v14.config import Options
from v14.recall.associations import leads
from v14.recall.doubt import LATE, Doubt
from v14.recall.weighing import Weighed
from v14.recall.wording import Wording
from v14.upgrade.calibration import Question

FALSE_RECALLS = tuple(number / 200 for number in range(2, 11))
"""Shares of questions about what nothing was told of that may reach the bar: 1% to 5%. Of these it is the one at which
facts that are found and wrong recalls differ most. Where names tell all apart, a stricter bar costs nothing; where
look-alikes cannot be told from facts, it would cost many."""

MISSED = 0.05
"""Share of the right links that may be weaker than what is asked of a link."""

ABOVE = 1e-3
"""What lies exactly at a threshold's quantile, as questions that are alike do together, is on the other side of it."""

RIDGE = 0.01
"""Penalty on squared weights, of features divided by their deviations."""

LEAST_DEVIATION = 0.02
"""What a feature is divided by at least: one that is the same for nearly all says nothing of the few others."""

MAX_EVENTS: int = Options.model_fields["recall_max_events"].default
RATIOS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
TOLERANCE = 0.02
"""The strictest ratio is taken that loses at most this share of the right events that the laxest one recalls."""

NEVER = -1e9

NUM_FEATURES = 6 + LATE
FEW_FEATURES = 5
"""Features of `Evidence.features` without `open` and `late`, which are weighed where they are worth it."""

FOLDS = 4
WORTH = 0.05
"""Share of the right events, out of fold and mean over `FALSE_RECALLS`, that all features have to find beyond the
few."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What there is to weigh for one question, ranked by votes; `needed` are the ids that hold the fact, and what it
    leads to. `wording` is of the question, `late` as `Space.late` gives it."""

    question: Question
    weighed: tuple[Weighed, ...]
    needed: tuple[frozenset[str], ...]
    wording: Wording
    late: Mapping[str, Sequence[float]]

    def features(self) -> torch.Tensor:
        """`[n, NUM_FEATURES]`: what `Doubt.odds` weighs."""
        rows = []
        for each in self.weighed:
            like = self.wording.likeness(each.event.id)
            late = [*self.late.get(each.event.id, ()), *[0.0] * LATE][:LATE]
            rows.append([each.vote, like.names, like.words, like.missing, like.phrase, like.open, *late])
        return torch.tensor(rows).reshape(-1, NUM_FEATURES)


@dataclass(frozen=True, kw_only=True)
class Sureness:
    """Thresholds, and what they give with the set's own questions: the share of facts in the plan, of chains with both,
    wrong events per plan, and the shares of strangers that recall anything: of all, of those that have look-alikes, and
    of the others."""

    doubt: Doubt | None
    ratio: float
    linked: float
    right_in_plan: float
    chains_linked: float
    wrong_in_plan: float
    strangers_recalling: float
    named_recalling: float
    lonely_recalling: float


def fit(evidence: Sequence[Evidence]) -> Sureness:
    """Fit everything. Where no question is a stranger, those about nothing stored take their place; where voters find
    no fact at all, there is nothing to fit, and votes decide alone."""
    if not any(each.event.id in one.needed[0] for one in evidence if one.needed for each in one.weighed):
        return Sureness(
            doubt=None,
            ratio=Options.model_fields["recall_ratio"].default,
            linked=Options.model_fields["recall_linked"].default,
            right_in_plan=0.0,
            chains_linked=0.0,
            wrong_in_plan=0.0,
            strangers_recalling=0.0,
            named_recalling=0.0,
            lonely_recalling=0.0,
        )
    features = [each.features() for each in evidence]
    few, everything = (_out_of_fold(evidence, features, num) for num in (FEW_FEATURES, NUM_FEATURES))
    margins = everything if everything.found(evidence) >= few.found(evidence) + WORTH else few
    weights, nothing = _weights(evidence, features, range(len(evidence)), margins.num_features)
    scores = [own @ weights for own in features]
    strange = _strange(evidence)
    bar = nothing + margins.bar(evidence)
    vote, names, words, missing, phrase, open_, *late = weights.tolist()
    doubt = Doubt(
        vote=vote,
        names=names,
        words=words,
        missing=missing,
        phrase=phrase,
        open=open_,
        late=tuple(late) if any(late) else (),
        bar=bar,
    )
    plans = {ratio: [_plan(*each, doubt, ratio) for each in zip(evidence, scores, strict=True)] for ratio in RATIOS}
    kept = {ratio: _kept(evidence, found) for ratio, found in plans.items()}
    ratio = max(ratio for ratio in RATIOS if kept[ratio] >= max(kept.values()) - TOLERANCE)
    linked, chains_linked = _linked(evidence)
    found = plans[ratio]
    lonely = torch.tensor([each.question.lonely for each in evidence])
    recalling = torch.tensor([bool(plan) for plan in found])
    return Sureness(
        doubt=doubt,
        ratio=ratio,
        linked=linked,
        right_in_plan=kept[ratio],
        chains_linked=chains_linked,
        wrong_in_plan=_mean(
            [len(plan - each.needed[0]) for each, plan in zip(evidence, found, strict=True) if each.needed]
        ),
        strangers_recalling=_mean(recalling[strange].tolist()),
        named_recalling=_mean(recalling[strange & ~lonely].tolist()),
        lonely_recalling=_mean(recalling[strange & lonely].tolist()),
    )


def _strange(evidence: Sequence[Evidence]) -> torch.Tensor:
    """`[M]` bool: questions about strangers; where there are none, those about nothing stored."""
    strange = torch.tensor([each.question.stranger for each in evidence])
    return strange if strange.any() else torch.tensor([each.question.fact is None for each in evidence])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Margins:
    """What the best event of each question has beyond nothing (`best`, `[M]`), and where that event is right (`right`,
    elsewhere `NEVER`), by weights that were fitted to other questions."""

    num_features: int
    best: torch.Tensor
    right: torch.Tensor

    def bars(self, evidence: Sequence[Evidence]) -> dict[float, tuple[float, float]]:
        """For each of `FALSE_RECALLS`, the bar that so many strangers reach and the share of facts that do."""
        strangers = self.best[_strange(evidence)]
        right = self.right[torch.tensor([bool(one.needed) for one in evidence])]
        bars = {rate: float(strangers.quantile(1 - rate)) + ABOVE for rate in FALSE_RECALLS}
        return {rate: (bar, float((right >= bar).float().mean())) for rate, bar in bars.items()}

    def found(self, evidence: Sequence[Evidence]) -> float:
        """Share of facts above the bar, mean over `FALSE_RECALLS`."""
        return _mean([found for _, found in self.bars(evidence).values()])

    def bar(self, evidence: Sequence[Evidence]) -> float:
        """Where what is found and what is recalled wrongly differ most."""
        bars = self.bars(evidence)
        return bars[max(bars, key=lambda rate: bars[rate][1] - rate)][0]


def _out_of_fold(evidence: Sequence[Evidence], features: Sequence[torch.Tensor], num_features: int) -> _Margins:
    best = torch.full((len(evidence),), NEVER)
    right = torch.full((len(evidence),), NEVER)
    for fold in range(FOLDS):
        own = range(fold, len(evidence), FOLDS)
        others = sorted(set(range(len(evidence))) - set(own))
        weights, nothing = _weights(evidence, features, others, num_features)
        for place in own:
            one, scores = evidence[place], features[place] @ weights - nothing
            if len(scores):
                best[place] = scores.max()
                if one.needed and one.weighed[int(scores.argmax())].event.id in one.needed[0]:
                    right[place] = scores.max()
    return _Margins(num_features=num_features, best=best, right=right)


def _weights(
    evidence: Sequence[Evidence], features: Sequence[torch.Tensor], places: Sequence[int], num_features: int
) -> tuple[torch.Tensor, float]:
    """`[NUM_FEATURES]`, fitted to the questions at `places`, 0 behind the first `num_features`; and the score of
    nothing. Questions about facts that are not among what is weighed teach nothing."""
    evidence = [evidence[place] for place in places]
    features = [features[place][:, :num_features] for place in places]
    scale = torch.cat(features).std(0).clamp_min(LEAST_DEVIATION)
    right = [
        torch.tensor([any(each.event.id in ids for ids in one.needed) for each in one.weighed], dtype=torch.bool)
        for one in evidence
    ]
    usable = [place for place, one in enumerate(evidence) if not one.needed or bool(right[place].any())]
    asks = torch.tensor([bool(evidence[place].needed) for place in usable])
    balance = torch.where(asks, 0.5 / asks.sum(), 0.5 / (~asks).sum())
    padded = torch.nn.utils.rnn.pad_sequence([features[place] / scale for place in usable], batch_first=True)
    absent = torch.nn.utils.rnn.pad_sequence(
        [torch.zeros(len(features[place]), dtype=torch.bool) for place in usable], batch_first=True, padding_value=True
    )
    wrong = torch.nn.utils.rnn.pad_sequence([~right[place] for place in usable], batch_first=True, padding_value=True)
    weights = torch.zeros(num_features, requires_grad=True)
    bar = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bar], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        scores = (padded @ weights).masked_fill(absent, NEVER)
        everything = torch.cat([scores, bar.expand(len(scores), 1)], dim=1).logsumexp(1)
        wanted = torch.where(asks, scores.masked_fill(wrong, NEVER).logsumexp(1), bar)
        loss = ((everything - wanted) * balance).sum() + RIDGE * weights.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return torch.nn.functional.pad(weights.detach() / scale, (0, NUM_FEATURES - num_features)), float(bar.detach())


def _plan(evidence: Evidence, scores: torch.Tensor, doubt: Doubt, ratio: float) -> set[str]:
    """What `weighing.found` and the ratio leave, without links."""
    ids = [each.event.id for each in evidence.weighed]
    if not len(scores) or float(scores.max()) < doubt.bar:
        return set()
    near = scores >= min(float(scores.max()) + math.log(ratio), doubt.bar)
    best = torch.where(near, scores, NEVER).topk(min(MAX_EVENTS, int(near.sum()))).indices
    return {ids[place] for place in best.tolist()}


def _kept(evidence: Sequence[Evidence], plans: Sequence[set[str]]) -> float:
    return _mean([bool(plan & each.needed[0]) for each, plan in zip(evidence, plans, strict=True) if each.needed])


def _linked(evidence: Sequence[Evidence]) -> tuple[float, float]:
    """The least strength of a link, and the share of chains whose second statement is what the first one leads to.

    All but `MISSED` of the right links are as strong: what leads on by chance only stands in front of what was found.
    """
    chains = []
    for each in evidence:
        if len(each.needed) > 1:
            led = leads({min(each.needed[0]): 0.0}, each.wording)
            best = max(led, key=lambda lead: lead.strength, default=None)
            chains.append(best.strength if best is not None and best.event_id in each.needed[1] else 0.0)
    if not any(chains):
        return Options.model_fields["recall_linked"].default, 0.0
    right = torch.tensor([strength for strength in chains if strength > 0])
    least = math.floor(100 * float(right.quantile(MISSED))) / 100
    return least, _mean([strength >= least for strength in chains])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
