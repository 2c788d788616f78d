"""Weighing events against each other: how strongly each was asked for, and whether the best of them is sure."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import islice, takewhile

from v14.config import Options
from v14.recall.doubt import Doubt
from v14.recall.order import SAME
from v14.recall.terms import Overlap
from v14.types import Event, Vote

MAX_WEIGHED = 64
"""How many of the best votes, and of the events that the question names, are weighed against each other."""

WEAK = 0.6
"""Share of the floor that an event's own vote has to reach where what it shares with the question lifts it above."""

MAX_STATEMENT_TOKENS = 64
"""Longer events are pieces of documents, no statements."""

VoteOf = Callable[[Collection[str]], Mapping[str, float]]
"""Votes of some events by their ids; one that is not read has none."""


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """An event that can be recalled: its vote, what it shares with the question, and the strength that it ranks by, its
    odds (`Doubt.odds`) or its vote."""

    event: Event
    vote: float
    asked: float
    strength: float

    @property
    def why(self) -> str:
        """Why it is recalled, in words."""
        shares = f", shares {self.asked:.2f} with the question" if self.asked else ""
        return f"vote {self.vote:.3f}{shares}"


def weigh(
    ranked: Sequence[Vote],
    votes: VoteOf,
    recall: Callable[[str], Event | None],
    options: Options,
    overlap: Overlap,
    doubt: Doubt | None,
) -> list[Weighed]:
    """What can be recalled (`recall` gives the event) of the best votes and of what the question names, the strongest
    first: by its vote alone, or where `doubt` says what else counts and words tell events apart, by its odds. Events
    whose vote is far below the floor are asked for by nothing, unless the question names them."""
    least = WEAK * options.recall_floor if options.recall_floor > 0 and overlap.tells else options.recall_floor
    known = {
        vote.event_id: vote.value for vote in takewhile(lambda vote: vote.value >= least, islice(ranked, MAX_WEIGHED))
    }
    if known and overlap.tells:
        shares = {event_id: overlap.asked(event_id) for event_id in overlap.named() - known.keys()}
        known |= votes(nlargest(MAX_WEIGHED, shares, key=lambda event_id: (shares[event_id], event_id)))
    weighed = []
    for event_id, vote in known.items():
        asked = overlap.asked(event_id)
        value = doubt.odds(vote, overlap.likeness(event_id)) if doubt is not None and overlap.tells else vote
        if (event := recall(event_id)) is not None:
            weighed.append(Weighed(event=event, vote=vote, asked=asked, strength=value))
    return sorted(weighed, key=lambda each: (-each.strength, -each.vote))


def found(weighed: Sequence[Weighed], options: Options, overlap: Overlap, doubt: Doubt | None) -> list[Weighed]:
    """Those of what is weighed that may be recalled: all of it where a plan with the best is sure, none where it is
    not; where votes decide alone, those whose vote reaches the floor.

    A plan is sure by the odds of the best event. Where little is stored, a question in other words has no look-alikes:
    then the event with the highest vote is enough if no other vote comes near it (`Doubt.alone`). A piece of a document
    need not have a question's words, and the calibration has none: if the highest vote is for one, votes decide.
    """
    floor = options.recall_floor
    if floor <= 0 or doubt is None or not overlap.tells:
        return [each for each in weighed if each.vote >= floor]
    if not weighed:
        return []
    highest = max(weighed, key=lambda each: each.vote)
    if len(highest.event.body) > MAX_STATEMENT_TOKENS:
        pieces = [each for each in weighed if len(each.event.body) > MAX_STATEMENT_TOKENS and each.vote >= floor]
        return sorted((replace(each, strength=each.vote) for each in pieces), key=lambda each: -each.vote)
    if math.log(weighed[0].strength) >= options.recall_sure:
        return list(weighed)
    near = math.log(highest.strength) >= options.recall_sure + doubt.least
    return [highest] if near and share_of_second(weighed, overlap, floor) <= doubt.alone else []


def share_of_second(weighed: Sequence[Weighed], overlap: Overlap, floor: float) -> float:
    """The highest vote for what tells of something else than the event with the highest of all, as a share of that.
    What is not weighed may have a vote of `WEAK` floors."""
    best, *others = sorted(weighed, key=lambda each: -each.vote)
    second = (each.vote for each in others if overlap.sameness(best.event.id, each.event.id) < SAME)
    return max(WEAK * floor, next(second, 0.0)) / best.vote if best.vote > 0 else 1.0


def standing(
    weighed: Sequence[Weighed],
    superseded: Callable[[str], Mapping[str, float]],
    least_score: float,
    overlap: Overlap,
) -> list[Weighed]:
    """What is weighed without what is superseded: by an event that is weighed as well and shares the same with the
    question. That one ranks by the stronger of the two."""
    kept = {each.event.id: each for each in weighed}
    for each in weighed:
        old = each.event.id
        later = [new for new, score in superseded(old).items() if score >= least_score and new in kept]
        if heirs := [new for new in later if overlap.sameness(old, new) >= SAME]:
            gone = kept.pop(old)
            for new in heirs:
                if kept[new].strength < gone.strength:
                    kept[new] = replace(kept[new], strength=gone.strength)
    return sorted(kept.values(), key=lambda each: (-each.strength, -each.vote))
