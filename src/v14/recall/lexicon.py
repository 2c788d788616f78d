"""The words of one namespace's events, and which events hold a word. Counted for each namespace by itself, so that
nothing of one shows in another.

What a word says in an event goes as in BM25 (Robertson and Zaragoza, 2009): a second mention adds little, and in a long
piece a word says less.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from v14.events.words import Vocabulary, Word

SATURATION, LENGTH_SHARE = 1.5, 0.75
"""BM25's k1 and b, as they are by default."""

LONG = 128
"""Words of a long event. BM25 takes the mean of all texts, and in a store of many statements and one document the
document would be found no more."""


class Lexicon:
    """Not thread-safe: its owner locks."""

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self._vocabulary = vocabulary or Vocabulary()
        self._texts: dict[str, tuple[bytes, ...]] = {}
        self._holders: dict[bytes, dict[str, float]] = {}
        # One object for each word, however often it occurs.
        self._known: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        """Number of events."""
        return len(self._texts)

    def add(self, event_id: str, token_ids: Sequence[int]) -> None:
        """Add an event; a known id changes nothing."""
        if event_id in self._texts:
            return
        words = tuple(self._known.setdefault(word.text, word.text) for word in self.words(token_ids))
        self._texts[event_id] = words
        length = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * len(words) / LONG)
        for word, count in Counter(words).items():
            self._holders.setdefault(word, {})[event_id] = count * (SATURATION + 1) / (count + length)

    def remove(self, event_id: str) -> None:
        """Take an event out; an unknown id raises `KeyError`."""
        for word in set(self._texts.pop(event_id)):
            held = self._holders[word]
            del held[event_id]
            if not held:
                del self._holders[word], self._known[word]

    def words(self, token_ids: Sequence[int]) -> list[Word]:
        """The words of any text."""
        return self._vocabulary.words(token_ids)

    def text(self, event_id: str) -> tuple[bytes, ...]:
        """The words of an event in order; none of one that is not here."""
        return self._texts.get(event_id, ())

    def holders(self, word: bytes) -> Mapping[str, float]:
        """The events that hold a word, and how much it says there."""
        return self._holders.get(word, {})

    def both(self, first: bytes, second: bytes) -> Collection[str]:
        """The events in which two words stand side by side."""
        rarer, other = sorted((self.holders(first), self.holders(second)), key=len)
        return [
            event_id for event_id in rarer if event_id in other and (first, second) in pairwise(self._texts[event_id])
        ]
