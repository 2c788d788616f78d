"""What one question of the table is asked about: statements told in chats of their own, the question in another."""

import random
from dataclasses import dataclass

from experiments.tiny_hybrid import vocabulary as words
from experiments.tiny_hybrid.stories import Item, Question, Writer

ROWS = ("fact", "corrected", "two-step", "long-note", "three at once", "ten at once")
"""Kinds of questions in the table. The last two are facts whose statement stands among two and nine others."""

NUM_OTHERS = 3
"""Statements about other things that are told beside every question's own."""

_AT_ONCE = {"three at once": 3, "ten at once": 10}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Statements in the order they are told, the question about them, and `others` that are told before."""

    statements: tuple[str, ...]
    others: tuple[str, ...]
    question: Question


def case(seed: int, row: str, number: int) -> Case:
    """Case `number` of a row: held-out names and values. Raises `ValueError` on an unknown row."""
    if row not in ROWS:
        raise ValueError(f"{row!r} is no row of the table: {', '.join(ROWS)}")
    draw = random.Random(f"{seed} {row} {number}")
    writer = Writer(draw, "eval")
    story = writer.by_kind["fact" if row in _AT_ONCE else row]()
    statements = _says(story)
    for _ in range(_AT_ONCE.get(row, 1) - 1):
        place = draw.randrange(len(statements) + 1)
        statements[place:place] = _says(writer.fact(paraphrase=False))
    others = [_says(writer.fact(paraphrase=False))[0] for _ in range(NUM_OTHERS)]
    return Case(statements=tuple(statements), others=tuple(others), question=story[-1].asks[-1])


def acknowledgement(statement: str) -> str:
    """What is replied to a statement in the same chat."""
    return random.Random(statement).choice(words.ACKNOWLEDGEMENTS)


def _says(story: list[Item]) -> list[str]:
    return [item.says for item in story if item.says]
