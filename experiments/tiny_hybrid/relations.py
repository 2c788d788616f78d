"""What can be told about somebody or something: how it is stated, asked, and asked in other words.

`{s}` is what the fact is about, `{v}` the value. A chain of facts is asked for with `noun`, which stands for the value
inside another question: "the town in which {s} lives". The last statement of every relation, and the last question in
other words where there are several, are held out: training never shows them.
"""

from dataclasses import dataclass
from pathlib import Path

from experiments.tiny_hybrid import vocabulary as words


@dataclass(frozen=True, kw_only=True)
class Relation:
    """Sentences with places for the subject and the value. `about` and `value` are types of entities or of values."""

    name: str
    about: tuple[str, ...]
    value: str
    says: tuple[str, ...]
    asks: tuple[str, ...]
    rewords: tuple[str, ...]
    noun: str = ""

    @property
    def seen_says(self) -> tuple[str, ...]:
        """Statements of training."""
        return self.says[:-1]

    @property
    def seen_rewords(self) -> tuple[str, ...]:
        """Rewordings of training."""
        return self.rewords[:-1] if len(self.rewords) > 1 else self.rewords


def _relation(line: str) -> Relation:
    """A line of the table: name | about | value | statements | questions | other words | noun, each list by `;`."""
    name, about, value, says, asks, rewords, *noun = (part.strip() for part in line.split("|"))
    lists = [tuple(item.strip() for item in part.split(";")) for part in (says, asks, rewords)]
    return Relation(
        name=name,
        about=tuple(about.split()),
        value=value,
        says=lists[0],
        asks=lists[1],
        rewords=lists[2],
        noun=noun[0] if noun else "",
    )


CALLED = Relation(
    name="called",
    about=("thing", "person", "animal", "company"),
    value="same",
    says=(
        "{s} is called {v}.",
        "{v} is the name of {s}.",
        "the name of {s} is {v}.",
        "everybody calls {s} {v}.",
        "we call {s} {v}.",
        "{s} goes by the name {v}.",
    ),
    asks=("What is {s} called?", "What is the name of {s}?"),
    rewords=("Which name does {s} have?", "What does everybody call {s}?", "By which name do we call {s}?"),
)

_LINES = (Path(__file__).parent / "relations.txt").read_text().splitlines()
TABLE = tuple(_relation(line) for line in _LINES if not line.startswith("#"))


def trait(noun: str, value: str) -> Relation:
    """The relation of an attribute, which may be an invented word: everything has it."""
    return Relation(
        name=f"trait {noun}",
        about=("thing", "person", "animal", "event", "place", "company"),
        value=value,
        says=(
            f"the {noun} of {{s}} is {{v}}.",
            f"{{s}} has the {noun} {{v}}.",
            f"{{v}} is the {noun} of {{s}}.",
            f"for {{s}} the {noun} is {{v}}.",
        ),
        asks=(f"What is the {noun} of {{s}}?", f"Which {noun} does {{s}} have?"),
        rewords=(f"Can you give me the {noun} of {{s}}?", f"I need the {noun} of {{s}}, what is it?"),
    )


def own(noun: str, value: str) -> Relation:
    """The relation of an attribute to the speaker."""
    return Relation(
        name=f"own {noun}",
        about=("self",),
        value=value,
        says=(f"my {noun} is {{v}}.", f"{{v}} is my {noun}.", f"I have {{v}} as my {noun}."),
        asks=(f"What is my {noun}?", f"Which is my {noun}?"),
        rewords=(f"Can you give me my {noun}?", f"I need my {noun}, what is it?"),
    )


def on_day(day: str) -> Relation:
    """What the speaker plans for a day."""
    return Relation(
        name=f"plan {day}",
        about=("self",),
        value="deed",
        says=(f"on {day} I will {{v}}.", f"on {day} I have to {{v}}.", f"my plan for {day} is to {{v}}."),
        asks=(f"What will I do on {day}?", f"What do I have to do on {day}?"),
        rewords=(f"What is my plan for {day}?",),
    )


BY_SUBJECT: dict[str, tuple[Relation, ...]] = {
    kind: tuple(relation for relation in TABLE if kind in relation.about)
    for kind in ("person", "thing", "animal", "event", "place", "company")
}
LINKING: dict[str, tuple[Relation, ...]] = {
    kind: tuple(relation for relation in relations if relation.noun) for kind, relations in BY_SUBJECT.items()
}
"""Relations whose value is an entity that more can be told about."""

PLANS = tuple(on_day(day) for day in words.DAYS)
