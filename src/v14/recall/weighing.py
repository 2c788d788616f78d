"""Weighing events against each other: how strongly each was asked for, and whether the best of them is sure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import islice, takewhile

from v14.config import Options
from v14.recall.associations import strength
from v14.recall.order import SAME
from v14.recall.terms import Overlap
from v14.types import Event, Vote

MAX_WEIGHED = 64
"""How many of the best votes, and of the events that the question names, are weighed against each other."""

WEAK = 0.6
"""Share of the floor that an event's own vote has to reach where what it shares with the question lifts it above."""

DISTINCT = 0.58
"""A best event is sure, too, where nothing that tells of something else has more than this share of its strength: what
nobody told has look-alikes, all of them as near (LOG.md, "pairs of tokens")."""

DISTINCT_VOTE = 1.3
"""Floors that its vote has to reach for that: where little is stored, a look-alike may be the only one."""

VoteOf = Callable[[Collection[str]], Mapping[str, float]]
"""Votes of some events by their ids; one that is not read has none."""


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """An event that can be recalled: its vote, what it shares with the question, and the strength that it ranks by."""

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
    unit: float,
) -> list[Weighed]:
    """What can be recalled (`recall` gives the event) of the best votes and of what the question names, the strongest
    first. Strengths below the floor are among them; events with less are asked for by nothing."""
    floor = options.recall_floor
    above = takewhile(lambda vote: vote.value >= min(floor, WEAK * unit), ranked)
    known = {vote.event_id: vote.value for vote in islice(above, MAX_WEIGHED)}
    if known and overlap.tells:
        shares = {event_id: overlap.asked(event_id) for event_id in overlap.named() - known.keys()}
        known |= votes(nlargest(MAX_WEIGHED, shares, key=lambda event_id: (shares[event_id], event_id)))
    weighed = []
    for event_id, vote in known.items():
        asked = overlap.asked(event_id)
        # Where nothing tells events apart by their words, votes do it alone.
        value = strength(vote, asked, unit) if overlap.tells else vote
        if value >= min(floor, WEAK * unit) and (event := recall(event_id)) is not None:
            weighed.append(Weighed(event=event, vote=vote, asked=asked, strength=value))
    return sorted(weighed, key=lambda each: (-each.strength, -each.vote))


def sure(weighed: Sequence[Weighed], options: Options, overlap: Overlap, unit: float) -> list[Weighed]:
    """Those of what is weighed that reach the floor; none where no vote does, or the best is not sure."""
    floor = options.recall_floor
    found = [each for each in weighed if each.strength >= floor]
    if not found or max(each.vote for each in found) < floor:
        return []
    best = found[0]
    if floor <= 0 or not overlap.tells or best.strength >= options.recall_sure * unit:
        return found
    if best.vote < DISTINCT_VOTE * unit:
        return []
    others = (each for each in weighed[1:] if overlap.sameness(best.event.id, each.event.id) < SAME)
    second = next(others, None)
    return found if second is None or second.strength <= DISTINCT * best.strength else []


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
