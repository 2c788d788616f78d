"""Which events only ask: nothing is told in them, and a plan for a fact has no use for an earlier question."""

from collections.abc import Collection
from dataclasses import dataclass

from v14.events.turns import TurnFormat
from v14.types import Event


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Tells events that only ask by how their sentences end; `question_ends` are among `sentence_ends`.

    Where no token is known to end a question, no event only asks.
    """

    turns: TurnFormat
    sentence_ends: Collection[int] = frozenset()
    question_ends: Collection[int] = frozenset()

    def __call__(self, event: Event) -> bool:
        """Whether the event ends with a question, and no other sentence stands in it."""
        body = event.body
        if body[-1] not in self.question_ends:
            return False
        opening = self.turns.openings.get(event.role, ())
        said = body[len(opening) :] if body[: len(opening)] == opening else body
        return all(token in self.question_ends for token in said if token in self.sentence_ends)
