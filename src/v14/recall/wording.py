"""What events have of a question's words, and of each other's, by how rare a word is in what is read.

The weight of a word in an event is how much it says there (`Lexicon.holders`), by its rarity.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise

from v14.recall.lexicon import Lexicon
from v14.recall.rarity import RARE, rarity

RAREST = 1.2
"""Rarity beyond which a word says no more: where few events are, one that a single event holds is rarer than that."""

MAX_LOOKED_AT = 300
"""How many holders of rare words are looked at, the rarest words' first: a long text has dozens of them."""


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """What an event has of a question, in rarities (`Wording.rarity`). `names`: the weights of words that the tokenizer
    cuts in pieces; `words`: of the others; `missing`: the rarity of the rarest word of several pieces that it has not;
    `phrase`: of the rarest two neighbours that it has; `open`: of the rarest word that it has not."""

    names: float
    words: float
    missing: float
    phrase: float
    open: float


class Wording:
    """The words of a question, against those of the events of every space that is read."""

    def __init__(self, lexicons: Sequence[Lexicon], asked: Sequence[int]) -> None:
        """`asked` are the tokens of the prompt's new part. `num_events` are those of all spaces."""
        self._lexicons = lexicons
        self.num_events = sum(map(len, lexicons))
        words = lexicons[0].words(asked) if lexicons else []
        self._asked = {word.text: self._holders(word.text) for word in words}
        self._rarities = {word: self._rarity(holders) for word, holders in self._asked.items()}
        self._names = {word.text: self._rarities[word.text] for word in words if word.num_tokens > 1}
        pairs = dict.fromkeys(pairwise(word.text for word in words))
        phrases = [self._side_by_side(*pair) for pair in pairs if max(map(self._rarities.__getitem__, pair)) >= RARE]
        self._phrases = [(self._rarity(holders), holders) for holders in phrases]
        self._known: dict[str, dict[bytes, float]] = {}

    @property
    def tells(self) -> bool:
        """Whether there are events enough for one word to be rarer than another."""
        return self.num_events > 2

    def rarity(self, word: bytes) -> float:
        """How rare a word is (`v14.recall.rarity`), `RAREST` at most."""
        return self._rarity(self._holders(word))

    def likeness(self, event_id: str) -> Likeness:
        """What an event has of the question, as far as that tells it from look-alikes."""
        held = self._held(event_id)
        return Likeness(
            names=sum(weight for word, weight in held.items() if word in self._names),
            words=sum(weight for word, weight in held.items() if word not in self._names),
            missing=max((rarity for word, rarity in self._names.items() if word not in held), default=0.0),
            phrase=max((rarity for rarity, holders in self._phrases if event_id in holders), default=0.0),
            open=max((rarity for word, rarity in self._rarities.items() if word not in held), default=0.0),
        )

    def asked(self, event_id: str) -> float:
        """The weight of all that an event has of the question."""
        return sum(self._held(event_id).values())

    def sameness(self, one: str, other: str) -> float:
        """How far two events answer the same question, 0 to 1: of what each has of it, what both have.

        Two statements about one thing have the same of it; what is said of another thing of its kind has only the words
        for the kind. Of two events nothing is rare, and every word counts the same.
        """
        first, second = self._held(one).keys(), self._held(other).keys()
        most = max(map(self._weight_of, (first, second)))
        return self._weight_of(first & second) / most if most else 0.0

    def named(self, num: int) -> list[str]:
        """The `num` events that have most of the question's rare words."""
        found = self._sharing(self._asked)
        return nlargest(num, found, key=lambda event_id: (found[event_id], event_id))

    def led_to(self, event_id: str) -> dict[str, tuple[float, float]]:
        """The events that share rare words with an event beyond what was asked: the weight of those there, and the
        rarities of what each has of the question and this one has not."""
        text = next((own for lexicon in self._lexicons if (own := lexicon.text(event_id))), ())
        shared = self._sharing({word: self._holders(word) for word in text if word not in self._asked})
        shared.pop(event_id, None)
        completed = dict.fromkeys(shared, 0.0)
        for word, holders in self._asked.items():
            if event_id not in holders:
                for other in holders if len(holders) < len(shared) else shared:
                    if other in holders and other in shared:
                        completed[other] += self._rarities[word]
        return {other: (weight, completed[other]) for other, weight in shared.items()}

    def _sharing(self, words: Mapping[bytes, Mapping[str, float]]) -> dict[str, float]:
        """The events that hold rare ones of some words, with their weights there; the rarest words first, until
        `MAX_LOOKED_AT` were seen."""
        found: dict[str, float] = {}
        num_seen = 0
        for holders in sorted(words.values(), key=len):
            rarity = self._rarity(holders)
            if rarity < RARE or num_seen >= MAX_LOOKED_AT:
                break
            for event_id, says in holders.items():
                found[event_id] = found.get(event_id, 0.0) + rarity * says
            num_seen += len(holders)
        return found

    def _held(self, event_id: str) -> dict[bytes, float]:
        """The question's words that an event has, with their weights there."""
        if event_id not in self._known:
            self._known[event_id] = {
                word: self._rarities[word] * holders[event_id]
                for word, holders in self._asked.items()
                if event_id in holders
            }
        return self._known[event_id]

    def _weight_of(self, words: Collection[bytes]) -> float:
        return sum(map(self._rarities.__getitem__, words)) if self.tells else len(words)

    def _holders(self, word: bytes) -> Mapping[str, float]:
        """The events of all spaces that hold a word, and how much it says there."""
        if len(self._lexicons) == 1:
            return self._lexicons[0].holders(word)
        return {event_id: says for lexicon in self._lexicons for event_id, says in lexicon.holders(word).items()}

    def _side_by_side(self, first: bytes, second: bytes) -> set[str]:
        return {event_id for lexicon in self._lexicons for event_id in lexicon.both(first, second)}

    def _rarity(self, holders: Collection[str]) -> float:
        return min(RAREST, rarity(len(holders), self.num_events))
