"""What found events lead to: activation that spreads along rare tokens which the question does not have.

    question    In which rack is the backup server?
    found       The backup server is called Ganymede.       its vote
    led to      Ganymede is in rack 9.                      its own vote, and what it shares with the found event

Nothing is written for it: what leads from one event to another is read off their token ids, so that both engines, and
stores made before, have the same associations. Measured against the votes of an event's own queries, they lead as well
(LOG.md, "two steps").
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from v14.recall.terms import Overlap

ASKED = 0.5
"""What shared tokens of the question add to a vote, as a share of the floor for each `Overlap.rarity` of 1."""

LED = 1.0
"""The same for tokens shared with a found event."""

MOST = 2.0
"""Rarities shared beyond this add nothing: a name may be of one token or of five."""


@dataclass(frozen=True, kw_only=True)
class Lead:
    """An event that a found one (`source`) leads to: how much they share, and its strength in votes."""

    event_id: str
    source: str
    shared: float
    strength: float


def strength(vote: float, event_id: str, overlap: Overlap, unit: float) -> float:
    """A vote, and what the event shares with the question; `unit` is the floor. Votes decide whether anything is
    recalled, strengths what of it."""
    return vote + ASKED * unit * min(MOST, overlap.asked(event_id))


def leads(
    found: Mapping[str, float], votes: Mapping[str, float], passed: Collection[str], overlap: Overlap, unit: float
) -> list[Lead]:
    """Where found events (with their strengths) lead, strongest first; a weaker one passes on a smaller share.

    `votes` of all events that can be recalled; `passed` are not to be led to.
    """
    best = max(found.values(), default=0.0)
    led: dict[str, Lead] = {}
    for source, own in found.items():
        share = min(1.0, own / best) if best > 0 else 1.0
        for event_id, shared in overlap.led_to(source).items():
            if event_id in found or event_id in passed or event_id not in votes:
                continue
            asked = strength(votes[event_id], event_id, overlap, unit)
            lead = Lead(
                event_id=event_id,
                source=source,
                shared=shared,
                strength=asked + LED * unit * share * min(MOST, shared),
            )
            if event_id not in led or led[event_id].strength < lead.strength:
                led[event_id] = lead
    return sorted(led.values(), key=lambda lead: -lead.strength)
