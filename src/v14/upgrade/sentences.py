"""Which tokens end a sentence or a line, the places where a long turn may be cut, and which of them end a question."""

from typing import Any

ENDS = (".", "!", "?", "…", "。", "！", "？", "\n")
QUESTION_ENDS = ("?", "？", "؟", "⸮", "՞", "\u037e", "吗", "呢", "か")
"""Question marks of Latin, Greek, Armenian, Arabic and East Asian writing, and particles that end a question where the
mark is left out."""

BATCH = 20_000


def sentence_ends(tokenizer: Any) -> frozenset[int]:
    """Ids of all tokens whose text ends with a sentence end or a newline; quotes and blanks may follow."""
    return _ending(tokenizer, ENDS)


def question_ends(tokenizer: Any) -> frozenset[int]:
    """Ids of all tokens whose text ends a question; quotes and blanks may follow."""
    return _ending(tokenizer, QUESTION_ENDS)


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
