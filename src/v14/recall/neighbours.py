"""The pieces of a long turn beside a found one: a sentence that was cut between two events is brought whole.

A document is cut at sentence ends where there are any; what stands beside a found piece is otherwise of no more use
than any other event, and small models read worse with it.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from v14.types import Event


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Finds the pieces in front of and behind one in its turn. `before` and `after` give the event next to one in its
    chat by its id, None where it is not there; `sentence_ends` are token ids."""

    before: Callable[[Event], Event | None]
    after: Callable[[Event], Event | None]
    sentence_ends: Collection[int]

    def of(self, event: Event) -> list[Event]:
        """The pieces that share a sentence with an event: at most two."""
        earlier, later = self.before(event), self.after(event)
        found = []
        if earlier is not None and self._one_sentence(earlier, event):
            found.append(earlier)
        if later is not None and self._one_sentence(event, later):
            found.append(later)
        return found

    def _one_sentence(self, one: Event, other: Event) -> bool:
        return one.role == other.role and not one.closing_len and one.body[-1] not in self.sentence_ends


def whole_sentences(
    chosen: Sequence[Event],
    neighbours: Neighbours,
    recall: Callable[[str], Event | None],
    budget_tokens: int,
) -> dict[str, tuple[Event, Event]]:
    """What completes the sentences of chosen events, strongest first, by id, with the event that it stands beside: as
    far as it can be recalled and `budget_tokens` reach for all of it together with what is chosen."""
    left = budget_tokens - sum(event.num_tokens for event in chosen)
    known = {event.id for event in chosen}
    found: dict[str, tuple[Event, Event]] = {}
    for event in chosen:
        for other in neighbours.of(event):
            if other.id in known or other.num_tokens > left or recall(other.id) is None:
                continue
            known.add(other.id)
            left -= other.num_tokens
            found[other.id] = (other, event)
    return found
