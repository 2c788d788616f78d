"""What found events lead to: activation that spreads along rare words which the question does not have.

    question    In which rack is the backup server?
    found       The backup server is called Ganymede.       its vote, and what it shares with the question
    led to      Ganymede is in rack 9.                      a name that both have, and "rack", which was still open

Nothing is written for it: what leads from one event to another is read off their token ids, so that both engines, and
stores made before, have the same associations. Measured against the votes of an event's own queries, they lead as well
(LOG.md, "two steps").
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest

from v14.recall.wording import Wording

NAME_MOST = 2.25
"""Weight of the words that lead from one event to another beyond which more adds nothing."""

MAX_LEADS = 16
"""How many leads of one source are looked at: some may stand in the prompt already, or only ask."""

BEHIND = 0.5
"""What each rarity costs that a found event has less of the question than the one that has most."""


@dataclass(frozen=True, kw_only=True)
class Lead:
    """An event that another one (`source`) leads to: the weight of the names that both have, what it has of the
    question that the source has not, and how strongly it is led to."""

    event_id: str
    source: str
    shared: float
    completed: float
    strength: float


def behind(found: Iterable[str], wording: Wording) -> dict[str, float]:
    """What speaks against going on from each found event: that another one has more of the question."""
    asked = {event_id: wording.asked(event_id) for event_id in found}
    most = max(asked.values(), default=0.0)
    return {event_id: BEHIND * (most - own) for event_id, own in asked.items()}


def leads(sources: Mapping[str, float], wording: Wording) -> list[Lead]:
    """Where events lead: along the names that they share, and to what the question leaves open; the `MAX_LEADS`
    strongest of each source.

    Strengths are in rarities (`Wording.rarity`). `sources` with what speaks against each.
    """
    found = []
    for source, against in sources.items():
        led = [
            (min(NAME_MOST, shared) + completed - against, event_id, shared, completed)
            for event_id, (shared, completed) in wording.led_to(source).items()
        ]
        found += [
            Lead(event_id=event_id, source=source, shared=shared, completed=completed, strength=strength)
            for strength, event_id, shared, completed in nlargest(MAX_LEADS, led)
        ]
    return found
