"""Which tokens end a sentence or a line, the places where a long turn may be cut, which of them end a question, and
which begin a word."""

from typing import Any

from v14.events.words import BEGINS, INSIDE, NO_WORD, Vocabulary

ENDS = (".", "!", "?", "…", "。", "！", "？", "\n")
QUESTION_ENDS = ("?", "？", "؟", "⸮", "՞", "\u037e", "吗", "呢", "か")
"""Question marks of Latin, Greek, Armenian, Arabic and East Asian writing, and particles that end a question where the
mark is left out."""

BLANKS = "Ġ▁Ċ "
"""How vocabularies write a blank or a new line in front of a word."""

BATCH = 20_000


def sentence_ends(tokenizer: Any) -> frozenset[int]:
    """Ids of all tokens whose text ends with a sentence end or a newline; quotes and blanks may follow."""
    return _ending(tokenizer, ENDS)


def question_ends(tokenizer: Any) -> frozenset[int]:
    """Ids of all tokens whose text ends a question; quotes and blanks may follow."""
    return _ending(tokenizer, QUESTION_ENDS)


def vocabulary(tokenizer: Any) -> Vocabulary:
    """The kind of every token, and what it says. Outside of ASCII every token begins a word: writings without blanks
    have no other beginnings, and pieces of a character are none."""
    special = set(tokenizer.all_special_ids)
    texts = [text or "" for text in tokenizer.convert_ids_to_tokens(range(len(tokenizer)))]
    return Vocabulary(
        kinds=bytes(NO_WORD if token in special else _word_kind(text) for token, text in enumerate(texts)),
        pieces=tuple(text.lstrip(BLANKS).encode().lower() for text in texts),
    )


def _word_kind(text: str) -> int:
    plain = text.lstrip(BLANKS)
    if not any(letter.isalnum() or not letter.isascii() for letter in plain):
        return NO_WORD
    return INSIDE if plain == text and text[0].isascii() and text[0].isalnum() else BEGINS


def _ending(tokenizer: Any, ends: tuple[str, ...]) -> frozenset[int]:
    found = set()
    ids = range(len(tokenizer))
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        texts = tokenizer.batch_decode([[token] for token in batch], clean_up_tokenization_spaces=False)
        for token, text in zip(batch, texts, strict=True):
            if text.rstrip(" \t\"'”’)").endswith(ends):
                found.add(token)
    return frozenset(found)
