"""Phrases that say that something changed, or ask for what was before, as runs of a model's tokens.

A list for each language, as data (`phrases.txt`): a direction of the cue, calibrated as voters are, tells questions for
the past from others as well, but takes one other in ten for one (LOG.md, "what was it before?").
"""

from importlib.resources import files
from typing import Any, Literal

What = Literal["change", "history"]


def phrase_runs(tokenizer: Any, what: What) -> tuple[tuple[int, ...], ...]:
    """The token runs of all phrases of a kind, as they stand in a text and at its beginning."""
    text = files("v14.upgrade").joinpath("phrases.txt").read_text(encoding="utf-8")
    runs = set()
    for line in text.splitlines():
        kind, _, phrases = (part.strip() for part in line.split("|")) if "|" in line else ("", "", "")
        if kind == what:
            runs |= {_run(tokenizer, form) for phrase in phrases.split(";") for form in _forms(phrase.strip())}
    return tuple(sorted(runs))


def _forms(phrase: str) -> tuple[str, ...]:
    """A phrase behind a blank or at the beginning; of a writing without blanks, as it is."""
    if not phrase[0].isascii():
        return (phrase,)
    begun = phrase[0].upper() + phrase[1:]
    return (f" {phrase}", f" {begun}", begun)


def _run(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
