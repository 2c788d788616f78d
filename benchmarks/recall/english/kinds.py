"""Kinds of facts in English, read from `kinds.txt`: how each is stated, asked, and asked in other words."""

import random
from dataclasses import dataclass
from pathlib import Path

from benchmarks.recall.english import names


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`{s}` is what a fact is about (a person or a firm), `{v}` its value, drawn from the pool `value`."""

    name: str
    about: str
    value: str
    says: tuple[str, ...]
    asks: str
    reworded: str

    @classmethod
    def parse(cls, line: str) -> "Kind":
        """A line of the list."""
        name, about, value, says, asks, reworded = (part.strip() for part in line.split("|"))
        forms = tuple(form.strip() for form in says.split(";"))
        return cls(name=name, about=about, value=value, says=forms, asks=asks, reworded=reworded)

    def state(self, draw: random.Random, subject: str, value: str) -> str:
        """The fact as a sentence."""
        text = draw.choice(self.says).format(s=subject, v=value)
        text += "。" if "？" in self.asks else "."
        return text[0].upper() + text[1:]

    def ask(self, subject: str, *, reworded: bool = False) -> str:
        """The question for it."""
        return (self.reworded if reworded else self.asks).format(s=subject)

    def draw_value(self, draw: random.Random) -> str:
        """A value."""
        return names.VALUES[self.value](draw)


def _listed(name: str) -> tuple[Kind, ...]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return tuple(Kind.parse(line) for line in text.splitlines() if line and not line.startswith("#"))


KINDS = _listed("kinds.txt")
"""All kinds."""

ABROAD = _listed("abroad.txt")
"""Kinds in other languages, and of code; the name is the row that asks about them."""

OF_PEOPLE = tuple(kind for kind in KINDS if kind.about == "somebody")
"""Those about a person."""
