"""Which tokens, and which pairs of neighbours, the events of a namespace hold: how rare each is, and who shares it.

Events tell of the same when they share what is rare, and templates, lead-ins and forms of speech are what every event
has. A name that a tokenizer cuts into pieces is told from others with some of the pieces by which stand together
(LOG.md, "pairs of tokens"). Counted for each namespace by itself, so that nothing of one shows in another.

A *term* is a token id, or a pair of neighbours as one negative number.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise

from v14.events.words import words_in

RARE = 0.25
"""Rarity from which on a term can lead from one event to another: of N events at most √(2N) hold it."""

TOKEN = 0.5
"""What a shared token counts beside a shared pair of them."""


NAME_PAIRS = 4
"""How many of the rarest shared pairs say whose name it is: more are words for the kind of thing."""

RAREST = 1.2
"""Rarity beyond which a pair says no more: where few events are, one that a single event holds is rarer than that."""


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """What an event has of a question, in rarities (`Overlap.rarity`). `name`: of the rarest pairs of tokens; `words`:
    squared, of whole words; `share`: of all of the question's words, so weighed, 0 to 1; `missing`: of the rarest token
    that it has not and that stands beside what it has."""

    name: float
    words: float
    share: float
    missing: float


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
    """What events share with each other, and with what was asked, by how rare it is among those that are read."""

    def __init__(self, terms: Sequence[Terms], asked: Sequence[int], word_kinds: bytes = b"") -> None:
        """`terms` of every space that is read; `asked` are the tokens of the prompt's new part; `word_kinds` say which
        tokens begin words (`events.words`)."""
        self._terms = terms
        self._asked = terms_in(asked)
        self._pairs = tuple(pairwise(asked))
        self._words = tuple(terms_in(word) for word in words_in(asked, word_kinds))
        self._num_events = sum(map(len, terms))
        # What two events share, others have as well or nobody: with two events nothing is rare.
        self._unit = math.log(self._num_events / 2) ** 2 if self._num_events > 2 else math.inf
        self._rarity: dict[int, float] = {}
        self._known: dict[str, frozenset[int]] = {}

    @property
    def tells(self) -> bool:
        """Whether there are events enough for one term to be rarer than another."""
        return math.isfinite(self._unit)

    def rarity(self, term: int) -> float:
        """The square of log(N / n) for a term that n of N events hold, as inverse document frequencies go (Spärck
        Jones, 1972); squared, because one rare name says more than many common words. In units of a term that two
        events hold: whatever the number of events, 1 is as rare as what is shared can be."""
        if term not in self._rarity:
            num_holders = max(1, sum(terms.num_holders(term) for terms in self._terms))
            self._rarity[term] = math.log(max(1.0, self._num_events / num_holders)) ** 2 / self._unit
        return self._rarity[term]

    def weight(self, terms: Iterable[int]) -> float:
        """The rarities of some terms together, tokens at `TOKEN` of theirs."""
        return sum(self.rarity(term) * (1.0 if term < 0 else TOKEN) for term in terms)

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

    def asked(self, event_id: str) -> float:
        """What an event shares with the question."""
        return self.weight(self.terms(event_id) & self._asked)

    def likeness(self, event_id: str) -> Likeness:
        """What an event has of the question, as far as that tells it from look-alikes."""
        own = self.terms(event_id)
        pairs = [self.rarity(term) for term in own & self._asked if term < 0]
        words = [(word <= own, self._word_rarity(word) ** 2) for word in self._words]
        held = sum(weight for is_held, weight in words if is_held)
        everything = sum(weight for _, weight in words)
        return Likeness(
            name=sum(nlargest(NAME_PAIRS, (min(RAREST, rarity) for rarity in pairs))),
            words=held,
            share=held / everything if everything else 0.0,
            missing=self._missing(own),
        )

    def _word_rarity(self, word: frozenset[int]) -> float:
        """Of its rarest pair, or of the only token."""
        return max(map(self.rarity, [term for term in word if term < 0] or word))

    def _missing(self, own: Collection[int]) -> float:
        """The rarest token that stands in the question beside what is rare and shared, and that `own` has not."""
        shared = {pair(*two) for two in self._pairs} & set(own)
        inside = {
            token for two in self._pairs if pair(*two) in shared and self.rarity(pair(*two)) >= RARE for token in two
        }
        beside = (
            other
            for one, two in self._pairs
            if pair(one, two) not in shared
            for token, other in ((one, two), (two, one))
            if token in inside and other not in own
        )
        return max(map(self.rarity, beside), default=0.0)

    def named(self) -> set[str]:
        """Events that share a rare pair of the question's tokens."""
        rare = (term for term in self._asked if term < 0 and self.rarity(term) >= RARE)
        return {event_id for term in rare for event_id in self.holders(term)}

    def sameness(self, one: str, other: str) -> float:
        """How far two events answer the same question, 0 to 1: of what each shares with the question, what both do.

        Two statements about one thing share the same of it; what is said of another thing of its kind shares only the
        words for the kind. Of two events nothing is rare, and every term counts the same.
        """
        first, second = (self.terms(event_id) & self._asked for event_id in (one, other))
        weight = self.weight if self.tells else len
        most = max(weight(first), weight(second))
        return weight(first & second) / most if most else 0.0

    def completed(self, event_id: str, found: str) -> float:
        """What an event shares with the question that a found one does not, tokens and pairs alike."""
        return sum(map(self.rarity, (self.terms(event_id) & self._asked) - self.terms(found)))

    def led_to(self, event_id: str) -> dict[str, float]:
        """The events that share a rare term with an event beyond what was asked, and the heaviest run of neighbours
        that they share: the first token's rarity and those of the pairs behind it."""
        beyond = self.terms(event_id) - self._asked
        rare = (term for term in beyond if self.rarity(term) >= RARE)
        others = {other for term in rare for other in self.holders(term)} - {event_id}
        places = _places(self.sequence(event_id), beyond)
        return {other: self._heaviest_run(places, beyond & self.terms(other)) for other in others}

    def _heaviest_run(self, places: Mapping[int, Sequence[int]], shared: Collection[int]) -> float:
        """Of an event's terms, which stand at `places`, those that are shared: only where one stands a run goes on."""
        # A pair, which is negative, comes before the token it ends with and takes its place.
        here: dict[int, int] = {}
        for term in sorted(shared):
            for place in places[term]:
                here.setdefault(place, term)
        best = weight = 0.0
        last = -2
        for place in sorted(here):
            term = here[place]
            weight = self.rarity(term) + (weight if term < 0 and last == place - 1 else 0.0)
            best, last = max(best, weight), place
        return best


def _places(tokens: Sequence[int], wanted: Collection[int]) -> Mapping[int, Sequence[int]]:
    """Where in a sequence the wanted terms end."""
    places: dict[int, list[int]] = {}
    for place, token in enumerate(tokens):
        terms = (token,) if not place else (token, pair(tokens[place - 1], token))
        for term in terms:
            if term in wanted:
                places.setdefault(term, []).append(place)
    return places
