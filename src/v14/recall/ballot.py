"""The votes for one cue. They stay where they were computed; what is asked for leaves: the best, and those of some ids.

A namespace may hold a million events, and a plan looks at a few dozen of them.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate
from typing import Protocol

import torch

from v14.recall.graphs import Cast
from v14.recall.pool import upload
from v14.types import Cue, Vote


class Ballot(Protocol):
    """Votes of one or several spaces for one cue."""

    def best(self, num: int, without: Collection[str] = ()) -> list[Vote]:
        """The `num` strongest votes but those of the events `without`, strongest first; fewer where there are not so
        many."""

    def of(self, ids: Iterable[str]) -> dict[str, float]:
        """The votes of events by id; one that is not there is left out."""


class Source(Protocol):
    """An index, as its votes need it."""

    def reading(self) -> AbstractContextManager[None]:
        """Nothing changes inside, and device work is in the index's order."""

    def place(self, event_id: str) -> tuple[int, int] | None:
        """Page and slot of an event."""

    def looked_up(self, cue: Cue, places: Sequence[tuple[int, int]]) -> torch.Tensor:
        """Votes `[n]` of the events at some places."""


class Votes:
    """Votes of one index, on its device. Of a large one, all voters read only the events that some of them chose."""

    def __init__(
        self,
        source: Source,
        ids: Sequence[Sequence[str | None]],
        rooms: Sequence[int],
        cast: Cast,
        cue: Cue,
    ) -> None:
        """`ids` by page and slot, which only grow, of `rooms` places in each page; places of `cast` are counted
        through them, and a vote is −inf where no event is."""
        self._source = source
        self._ids = ids
        self._sizes = [len(own) for own in ids]
        self._firsts = [0, *accumulate(rooms)]
        self._values, self._chosen = cast
        self._cue = cue

    def best(self, num: int, without: Collection[str] = ()) -> list[Vote]:
        """See `Ballot`. Of equal votes the one that stands first is first."""
        passed = set(without)
        with self._source.reading():
            found = torch.topk(self._values, min(num + len(passed), len(self._values)))
            places = found.indices if self._chosen is None else self._chosen[found.indices]
            # One copy, since each waits for the device: what is fp32 is as well in fp64, and a place is exact there.
            values, at = torch.stack([found.values.double(), places.double()]).tolist()
        ranked = sorted(zip(values, map(int, at), strict=True), key=lambda pair: (-pair[0], pair[1]))
        votes = [(self._id(place), value) for value, place in ranked if value > -math.inf]
        return [Vote(event_id=id, value=value) for id, value in votes if id is not None and id not in passed][:num]

    def of(self, ids: Iterable[str]) -> dict[str, float]:
        """See `Ballot`."""
        with self._source.reading():
            found = {event_id: place for event_id in ids if (place := self._source.place(event_id)) is not None}
            found = {event_id: place for event_id, place in found.items() if self._holds(event_id, *place)}
            if not found:
                return {}
            if self._chosen is None:
                at = torch.tensor([self._firsts[page] + slot for page, slot in found.values()])
                values = self._values[upload(at, self._values.device)]
            else:
                values = self._source.looked_up(self._cue, [*found.values()])
            return dict(zip(found, values.tolist(), strict=True))

    def _id(self, place: int) -> str | None:
        page = bisect_right(self._firsts, place) - 1
        return self._ids[page][place - self._firsts[page]]

    def _holds(self, event_id: str, page: int, slot: int) -> bool:
        """Whether the event stood there when the votes were taken."""
        return page < len(self._ids) and slot < self._sizes[page] and self._ids[page][slot] == event_id


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
