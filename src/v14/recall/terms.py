"""Which tokens, and which pairs of neighbours, the events of a namespace hold: how rare each is, and who shares it.

Events tell of the same when they share what is rare, and templates, lead-ins and forms of speech are what every event
has. A name that a tokenizer cuts into pieces is told from others with some of the pieces by which stand together
(LOG.md, "pairs of tokens"). Counted for each namespace by itself, so that nothing of one shows in another.

A *term* is a token id, or a pair of neighbours as one negative number.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from v14.recall.rarity import rarity


def pair(first: int, second: int) -> int:
    """The term of two neighbours; token ids are below 2³²."""
    return ~(first << 32 | second)


def terms_in(token_ids: Sequence[int]) -> frozenset[int]:
    """The distinct terms of a sequence."""
    return frozenset((*token_ids, *(pair(one, two) for one, two in pairwise(token_ids))))


class Terms:
    """The terms of one namespace's events; each counts once an event. Not thread-safe: its owner locks."""

    def __init__(self) -> None:
        self._sequences: dict[str, tuple[int, ...]] = {}
        # Most pairs have one holder, and a set of one takes the memory of ten.
        self._holders: dict[int, str | set[str]] = {}

    def __len__(self) -> int:
        """Number of events."""
        return len(self._sequences)

    def add(self, event_id: str, token_ids: Iterable[int]) -> None:
        """Add an event; a known id changes nothing."""
        if event_id in self._sequences:
            return
        self._sequences[event_id] = tuple(token_ids)
        for term in self.terms(event_id):
            held = self._holders.setdefault(term, event_id)
            if isinstance(held, set):
                held.add(event_id)
            elif held != event_id:
                self._holders[term] = {held, event_id}

    def remove(self, event_id: str) -> None:
        """Take an event out; an unknown id raises `KeyError`."""
        gone = terms_in(self._sequences.pop(event_id))
        for term in gone:
            held = self._holders[term]
            if isinstance(held, set):
                held.remove(event_id)
            if not isinstance(held, set) or not held:
                del self._holders[term]

    def sequence(self, event_id: str) -> tuple[int, ...]:
        """The tokens of an event in order; none of one that is not here."""
        return self._sequences.get(event_id, ())

    def terms(self, event_id: str) -> frozenset[int]:
        """The distinct terms of an event; none of one that is not here."""
        return terms_in(self.sequence(event_id))

    def num_holders(self, term: int) -> int:
        """How many events hold a term."""
        held = self._holders.get(term, ())
        return 1 if isinstance(held, str) else len(held)

    def holders(self, term: int) -> Collection[str]:
        """Ids of the events that hold a term."""
        held = self._holders.get(term, ())
        return (held,) if isinstance(held, str) else tuple(held)


class Overlap:
    """What events share with each other, by how rare it is among those that are read."""

    def __init__(self, terms: Sequence[Terms]) -> None:
        """`terms` of every space that is read."""
        self._terms = terms
        self._num_events = sum(map(len, terms))
        self._rarity: dict[int, float] = {}
        self._known: dict[str, frozenset[int]] = {}

    def rarity(self, term: int) -> float:
        """How rare a term is (`v14.recall.rarity`)."""
        if term not in self._rarity:
            num_holders = sum(terms.num_holders(term) for terms in self._terms)
            self._rarity[term] = rarity(num_holders, self._num_events)
        return self._rarity[term]

    def sequence(self, event_id: str) -> tuple[int, ...]:
        """The tokens of an event in order, in whichever space it is."""
        return next((found for terms in self._terms if (found := terms.sequence(event_id))), ())

    def terms(self, event_id: str) -> frozenset[int]:
        """The distinct terms of an event, in whichever space it is."""
        if event_id not in self._known:
            self._known[event_id] = terms_in(self.sequence(event_id))
        return self._known[event_id]

    def holders(self, term: int) -> set[str]:
        """Ids of the events that hold a term, in whichever space."""
        return {event_id for terms in self._terms for event_id in terms.holders(term)}
