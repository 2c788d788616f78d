"""What found events lead to: activation that spreads along rare words which the question does not have.

    question    In which rack is the backup server?
    found       The backup server is called Ganymede.       its vote, and what it shares with the question
    led to      Ganymede is in rack 9.                      a name that both have, and "rack", which was still open

Nothing is written for it: what leads from one event to another is read off their token ids, so that both engines, and
stores made before, have the same associations. Measured against the votes of an event's own queries, they lead as well
(LOG.md, "two steps").
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from v14.recall.terms import Overlap

NAME_MOST = 4.0
"""Rarities of the run of tokens that leads from one event to another beyond which more adds nothing: a name may be of
one token or of five."""

OPEN_MOST = 1.0
"""The same, for what an event completes of the question."""


@dataclass(frozen=True, kw_only=True)
class Lead:
    """An event that a found one (`source`) leads to: how rare the name is that both have, and how strongly it leads."""

    event_id: str
    source: str
    shared: float
    strength: float


def leads(found: Iterable[str], passed: Collection[str], overlap: Overlap) -> list[Lead]:
    """Where found events lead, strongest first: along the name that they share, and to what the question leaves open.

    Strengths are in rarities (`Overlap.rarity`). `passed` are not to be led to.
    """
    sources = list(found)
    led: dict[str, Lead] = {}
    for source in sources:
        for event_id, shared in overlap.led_to(source).items():
            if event_id in sources or event_id in passed:
                continue
            completed = min(OPEN_MOST, overlap.completed(event_id, source))
            lead = Lead(
                event_id=event_id,
                source=source,
                shared=shared,
                strength=min(NAME_MOST, shared) + completed,
            )
            if event_id not in led or led[event_id].strength < lead.strength:
                led[event_id] = lead
    return sorted(led.values(), key=lambda lead: -lead.strength)
