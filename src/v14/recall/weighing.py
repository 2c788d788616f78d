"""Weighing events against each other: how strongly each was asked for, and whether the best of them is sure."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from v14.config import Options
from v14.recall.corrections import MAX_TOKENS
from v14.recall.doubt import MOST_LOG_ODDS, Doubt
from v14.recall.order import SAME
from v14.recall.wording import Wording
from v14.types import Event, Vote

MAX_WEIGHED = 64
"""How many of the best votes, and of the events that the question names, are weighed against each other."""

WEAK = 0.6
"""Share of the floor that an event's own vote has to reach where what it shares with the question lifts it above."""

PIECE = 1.5
"""Floors that the vote of a piece of a document has to reach where words do not make it sure."""

FEW_EVENTS = 100
"""Among so few a word is hardly rare, and a vote that no other comes near tells more."""

ALONE, APART = 2.0, 1.0
"""Floors that the vote of one of few events has to reach where words do not make it sure, and to be ahead of every
other."""

VoteOf = Callable[[Collection[str]], Mapping[str, float]]
"""Votes of some events by their ids; one that is not read has none."""

LateOf = Callable[[Collection[str]], Mapping[str, Sequence[float]]]
"""What the cue's last tokens give to some events' votes (`Space.late`); of one that is not read, nothing."""


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
    wording: Wording,
    doubt: Doubt | None,
    late: LateOf = lambda ids: {},
) -> list[Weighed]:
    """What can be recalled (`recall` gives the event) of the best votes and of what the question names, the strongest
    first: by its vote alone, or where `doubt` says what else counts (`late` among it) and words tell events apart, by
    its odds. Events whose vote is far below the floor are asked for by nothing, unless the question names them."""
    least = WEAK * options.recall_floor if options.recall_floor > 0 and wording.tells else options.recall_floor
    known = {
        vote.event_id: vote.value for vote in takewhile(lambda vote: vote.value >= least, islice(ranked, MAX_WEIGHED))
    }
    if wording.tells:
        known |= votes([event_id for event_id in wording.named(MAX_WEIGHED) if event_id not in known])
    events = {event_id: event for event_id in known if (event := recall(event_id)) is not None}
    parts = late(events) if doubt is not None and doubt.late and wording.tells else {}
    weighed = []
    for event_id, event in events.items():
        vote, asked = known[event_id], wording.asked(event_id) if wording.tells else 0.0
        value = vote
        if doubt is not None and wording.tells:
            value = doubt.odds(vote, wording.likeness(event_id), parts.get(event_id, ()))
        weighed.append(Weighed(event=event, vote=vote, asked=asked, strength=value))
    return sorted(weighed, key=lambda each: (-each.strength, -each.vote))


def found(weighed: Sequence[Weighed], options: Options, wording: Wording, doubt: Doubt | None) -> list[Weighed]:
    """Those of what is weighed that may be recalled: all of it where a plan with the best is sure, none where it is
    not; where votes decide alone, those whose vote reaches the floor.

    A piece of a document need not have a question's names, nor does anybody take it for another statement: if it is the
    best, a vote of `PIECE` floors is enough. Of few events no word is rare: a vote that stands alone is enough.
    """
    floor = options.recall_floor
    if floor <= 0 or doubt is None or not wording.tells:
        return [each for each in weighed if each.vote >= floor]
    if not weighed:
        return []
    best = weighed[0]
    is_sure = math.log(best.strength) >= options.recall_sure
    is_piece = len(best.event.body) > MAX_TOKENS and best.vote >= PIECE * floor
    second = max((each.vote for each in weighed[1:]), default=0.0)
    is_alone = wording.num_events <= FEW_EVENTS and best.vote >= max(ALONE * floor, second + APART * floor)
    return list(weighed) if is_sure or is_piece or is_alone else []


def least_strength(weighed: Sequence[Weighed], options: Options, wording: Wording, doubt: Doubt | None) -> float:
    """What an event needs to be recalled with the best: `recall_ratio` of its strength, or to be sure itself."""
    best = weighed[0].strength if weighed else 0.0
    if options.recall_ratio <= 0 or best <= 0:
        return -math.inf
    is_odds = doubt is not None and wording.tells
    sure = math.exp(min(MOST_LOG_ODDS, options.recall_sure)) if is_odds else math.inf
    return min(options.recall_ratio * best, sure)


def standing(
    weighed: Sequence[Weighed],
    superseded: Callable[[str], Mapping[str, float]],
    least_score: float,
    wording: Wording,
) -> list[Weighed]:
    """What is weighed without what is superseded: by an event that is weighed as well and shares the same with the
    question. That one ranks by the stronger of the two."""
    kept = {each.event.id: each for each in weighed}
    for each in weighed:
        old = each.event.id
        later = [new for new, score in superseded(old).items() if score >= least_score and new in kept]
        if heirs := [new for new in later if wording.sameness(old, new) >= SAME]:
            gone = kept.pop(old)
            for new in heirs:
                if kept[new].strength < gone.strength:
                    kept[new] = replace(kept[new], strength=gone.strength)
    return sorted(kept.values(), key=lambda each: (-each.strength, -each.vote))
