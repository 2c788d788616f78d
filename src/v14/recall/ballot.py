"""The votes for one cue. They stay where they were computed; what is asked for leaves: the best, and those of some ids.

A namespace may hold a million events, and a plan looks at a few dozen of them.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

import torch

from v14.types import Vote


class Ballot(Protocol):
    """Votes of one or several spaces for one cue."""

    def best(self, num: int, without: Collection[str] = ()) -> list[Vote]:
        """The `num` strongest votes but those of the events `without`, strongest first; fewer where there are not so
        many."""

    def of(self, ids: Iterable[str]) -> dict[str, float]:
        """The votes of events by id; one that is not there is left out."""


class Votes:
    """Votes `values` `[N]` fp32 of the events `ids`; `place` says where in them an event stands, or None."""

    def __init__(self, values: torch.Tensor, ids: Sequence[str], place: Callable[[str], int | None]) -> None:
        self._values = values
        self._ids = ids
        self._place = place

    def best(self, num: int, without: Collection[str] = ()) -> list[Vote]:
        """See `Ballot`. Of equal votes the one that stands first is first."""
        passed = set(without)
        found = torch.topk(self._values, min(num + len(passed), len(self._ids)))
        pairs = zip(found.values.tolist(), found.indices.tolist(), strict=True)
        ranked = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))
        votes = (Vote(event_id=self._ids[place], value=value) for value, place in ranked)
        return [vote for vote in votes if vote.event_id not in passed][:num]

    def of(self, ids: Iterable[str]) -> dict[str, float]:
        """See `Ballot`."""
        places = {event_id: place for event_id in ids if (place := self._place(event_id)) is not None}
        values = self._values[torch.tensor([*places.values()], dtype=torch.int64)].tolist()
        return dict(zip(places, values, strict=True))


class Joint:
    """Ballots of several spaces as one. What several of them hold is taken from the first."""

    def __init__(self, ballots: Sequence[Ballot]) -> None:
        """`ballots` in the order in which their spaces are asked."""
        self._ballots = ballots

    def best(self, num: int, without: Collection[str] = ()) -> list[Vote]:
        """See `Ballot`."""
        found: list[Vote] = []
        for number, ballot in enumerate(self._ballots):
            passed = set(without)
            while True:
                mine = ballot.best(num, passed)
                ids = {vote.event_id for vote in mine}
                held = {event_id for before in self._ballots[:number] for event_id in before.of(ids)}
                if not held:
                    break
                passed |= held
            found.extend(mine)
        return sorted(found, key=lambda vote: -vote.value)[:num]

    def of(self, ids: Iterable[str]) -> dict[str, float]:
        """See `Ballot`."""
        found: dict[str, float] = {}
        left = set(ids)
        for ballot in self._ballots:
            mine = ballot.of(left)
            found |= mine
            left -= mine.keys()
        return found
