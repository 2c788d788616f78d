"""Which tokens end a sentence or a line: the places where a long turn may be cut."""

from typing import Any

ENDS = (".", "!", "?", "…", "。", "！", "？", "\n")
BATCH = 20_000


def sentence_ends(tokenizer: Any) -> frozenset[int]:
    """Ids of all tokens whose text ends with a sentence end or a newline; quotes and blanks may follow."""
    found = set()
    ids = range(len(tokenizer))
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        texts = tokenizer.batch_decode([[token] for token in batch], clean_up_tokenization_spaces=False)
        for token, text in zip(batch, texts, strict=True):
            if text.rstrip(" \t\"'”’)").endswith(ENDS):
                found.add(token)
    return frozenset(found)
