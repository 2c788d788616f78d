"""Where words begin in token ids: a name is the same only if all of its pieces are."""

from collections.abc import Sequence

INSIDE, BEGINS, NO_WORD = 0, 1, 2
"""Kinds of tokens: goes on with a word, begins one, or has no letter or digit (marks, and tokens of the template)."""


def words_in(token_ids: Sequence[int], kinds: bytes) -> list[tuple[int, ...]]:
    """The words of a text in order. `kinds` are those of the vocabulary by token id; a token beyond it, or of none that
    is known, is a word of its own."""
    words: list[tuple[int, ...]] = []
    is_open = False
    for token in token_ids:
        kind = kinds[token] if token < len(kinds) else BEGINS
        if kind == NO_WORD:
            is_open = False
        elif kind == INSIDE and is_open:
            words[-1] += (token,)
        else:
            words.append((token,))
            is_open = True
    return words
