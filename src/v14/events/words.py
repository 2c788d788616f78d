"""The words of a text in token ids: a name is the same only if all of its pieces are, wherever in a text it stands."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

INSIDE, BEGINS, NO_WORD = 0, 1, 2
"""Kinds of tokens: goes on with a word, begins one, or has no letter or digit (marks, and tokens of the template)."""

MARKS = b".,;:!?'\"()[]"
"""What may be part of a token beside a word's letters."""


class Word(NamedTuple):
    """A word as it is compared, and of how many tokens it is: a tokenizer cuts what is rare, names above all."""

    text: bytes
    num_tokens: int


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The kinds of all tokens by id, and what each says (`pieces`): without blanks, ASCII letters small, in whatever
    bytes the vocabulary writes it. A token beyond it is a word of its own."""

    kinds: bytes = b""
    pieces: tuple[bytes, ...] = ()

    def words(self, token_ids: Sequence[int]) -> list[Word]:
        """The words of a text in order."""
        words: list[tuple[int, ...]] = []
        is_open = False
        for token in token_ids:
            kind = self.kinds[token] if token < len(self.kinds) else BEGINS
            if kind == NO_WORD:
                is_open = False
            elif kind == INSIDE and is_open:
                words[-1] += (token,)
            else:
                words.append((token,))
                is_open = True
        return [Word(self._text(word), len(word)) for word in words]

    def _text(self, word: Sequence[int]) -> bytes:
        """A last s says little, in a dozen languages: "she accepts" is what "does she accept" asks for."""
        text = b"".join(self.pieces[t] if t < len(self.pieces) else b"#%d" % t for t in word)
        plain = text.strip(MARKS) or text
        return plain[:-1] if len(plain) > 3 and plain.endswith(b"s") else plain
