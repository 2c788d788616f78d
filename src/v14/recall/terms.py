"""Which tokens the events of a namespace hold: how rare each is, and which events share it.

Events tell of the same when they share what is rare, and templates, lead-ins and forms of speech are what every event
has. Counted for each namespace by itself, so that nothing of one shows in another.
"""

import math
from collections.abc import Collection, Iterable, Sequence

RARE = 0.25
"""Rarity from which on a token can lead from one event to another: of N events at most √(2N) hold it."""


class Terms:
    """The tokens of one namespace's events; each counts once an event. Not thread-safe: its owner locks."""

    def __init__(self) -> None:
        self._of_event: dict[str, frozenset[int]] = {}
        self._holders: dict[int, set[str]] = {}

    def __len__(self) -> int:
        """Number of events."""
        return len(self._of_event)

    def add(self, event_id: str, token_ids: Iterable[int]) -> None:
        """Add an event; a known id changes nothing."""
        if event_id not in self._of_event:
            self._of_event[event_id] = frozenset(token_ids)
            for token in self._of_event[event_id]:
                self._holders.setdefault(token, set()).add(event_id)

    def remove(self, event_id: str) -> None:
        """Take an event out; an unknown id raises `KeyError`."""
        for token in self._of_event.pop(event_id):
            holders = self._holders[token]
            holders.remove(event_id)
            if not holders:
                del self._holders[token]

    def tokens(self, event_id: str) -> frozenset[int]:
        """The distinct tokens of an event; none of one that is not here."""
        return self._of_event.get(event_id, frozenset())

    def num_holders(self, token: int) -> int:
        """How many events hold a token."""
        return len(self._holders.get(token, ()))

    def holders(self, token: int) -> Collection[str]:
        """Ids of the events that hold a token."""
        return tuple(self._holders.get(token, ()))


class Overlap:
    """What events share with each other, and with what was asked, by how rare it is among those that are read."""

    def __init__(self, terms: Sequence[Terms], asked: Iterable[int]) -> None:
        """`terms` of every space that is read; `asked` are the tokens of the prompt's new part."""
        self._terms = terms
        self._asked = frozenset(asked)
        self._num_events = sum(map(len, terms))
        # What two events share, others have as well or nobody: with two events nothing is rare.
        self._unit = math.log(self._num_events / 2) ** 2 if self._num_events > 2 else math.inf
        self._rarity: dict[int, float] = {}
        self._led_to: dict[str, dict[str, float]] = {}

    @property
    def tells(self) -> bool:
        """Whether there are events enough for one token to be rarer than another."""
        return math.isfinite(self._unit)

    def rarity(self, token: int) -> float:
        """The square of log(N / n) for a token that n of N events hold, as inverse document frequencies go (Spärck
        Jones, 1972); squared, because one rare name says more than many common words. In units of a token that two
        events hold: whatever the number of events, 1 is as rare as what is shared can be."""
        if token not in self._rarity:
            num_holders = max(1, sum(terms.num_holders(token) for terms in self._terms))
            self._rarity[token] = math.log(max(1.0, self._num_events / num_holders)) ** 2 / self._unit
        return self._rarity[token]

    def weight(self, tokens: Iterable[int]) -> float:
        """The rarities of some tokens, together."""
        return sum(map(self.rarity, tokens))

    def tokens(self, event_id: str) -> frozenset[int]:
        """The distinct tokens of an event, in whichever space it is."""
        for terms in self._terms:
            if found := terms.tokens(event_id):
                return found
        return frozenset()

    def asked(self, event_id: str) -> float:
        """What an event shares with the question."""
        return self.weight(self.tokens(event_id) & self._asked)

    def sameness(self, one: str, other: str) -> float:
        """How far two events answer the same question, 0 to 1: of what each shares with the question, what both do.

        Two statements about one thing share the same of it; what is said of another thing of its kind shares only the
        words for the kind. Of two events nothing is rare, and every token counts the same.
        """
        first, second = (self.tokens(event_id) & self._asked for event_id in (one, other))
        weight = self.weight if self.tells else len
        most = max(weight(first), weight(second))
        return weight(first & second) / most if most else 0.0

    def beyond(self, event_id: str) -> frozenset[int]:
        """The tokens of an event that the question does not have, and that are rare enough to lead anywhere."""
        return frozenset(t for t in self.tokens(event_id) - self._asked if self.rarity(t) >= RARE)

    def led_to(self, event_id: str) -> dict[str, float]:
        """The events that share rare tokens with an event, beyond what was asked, and how much they share."""
        if event_id not in self._led_to:
            found = self._led_to[event_id] = {}
            for token in self.beyond(event_id):
                for terms in self._terms:
                    for other in terms.holders(token):
                        if other != event_id:
                            found[other] = found.get(other, 0.0) + self.rarity(token)
        return self._led_to[event_id]
