"""Facts and the questions about them, generated from a seed."""

import random
from dataclasses import dataclass

from v14.check.data import lines
from v14.check.pools import POOLS


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What is told, what is asked in another chat, and the value that a right answer contains."""

    statement: str
    question: str
    value: str
    paraphrased: bool


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a fact can be about: sentences with places for the value `{v}` and one of `variants` `{s}`."""

    statement: str
    direct: str
    reworded: str
    kind: str
    variants: tuple[str, ...]

    @classmethod
    def parse(cls, line: str) -> "Subject":
        """A line of the list `subjects`."""
        statement, direct, reworded, kind, *variants = line.split(" | ")
        return cls(
            statement=statement,
            direct=direct,
            reworded=reworded,
            kind=kind,
            variants=tuple(variants[0].split(", ")) if variants else ("",),
        )


SUBJECTS = tuple(Subject.parse(line) for line in lines("subjects"))


def generate(seed: int, num_facts: int) -> list[Fact]:
    """Facts on different subjects with different values; every second question is put in other words.

    The same seed gives the same facts, and a longer list begins with the shorter one. Raises `ValueError` if
    there are not that many subjects.
    """
    if num_facts > len(SUBJECTS):
        raise ValueError(f"there are {len(SUBJECTS)} subjects, not {num_facts}")
    rng = random.Random(f"facts {seed}")
    facts: list[Fact] = []
    taken: set[str] = set()
    for number, subject in enumerate(rng.sample(SUBJECTS, len(SUBJECTS))[:num_facts]):
        variant = rng.choice(subject.variants)
        value = POOLS[subject.kind](rng)
        while value.lower() in taken:
            value = POOLS[subject.kind](rng)
        taken.add(value.lower())
        paraphrased = number % 2 == 1
        facts.append(
            Fact(
                statement=subject.statement.format(s=variant, v=value),
                question=(subject.reworded if paraphrased else subject.direct).format(s=variant),
                value=value,
                paraphrased=paraphrased,
            )
        )
    return facts
