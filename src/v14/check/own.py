"""Questions of one's own, for a model whose language or subjects the check's own questions are not of.

A JSON file; every part but `facts` can be left out, and its rows are skipped then:

    {"facts": [{"statement": "Das Boot heißt Ada.", "question": "Wie heißt das Boot?",
                "reworded": "Welchen Namen trägt das Boot?", "value": "Ada"}, …],
     "spare_facts": […],
     "unrelated": [{"question": "Was trinken Kühe?", "accepted": ["Wasser"]}, …],
     "chats": ["Heute ist es heiß.", …],
     "corrected": [{"statements": ["Mein Arzt ist Dr. Wirth.", "Mein Arzt ist jetzt Dr. Lang."],
                    "question": "Wer ist mein Arzt?", "values": ["Wirth", "Lang"]}, …],
     "two_step": [{"statements": ["Der Server heißt Ganymed.", "Ganymed steht in Halle 9."],
                   "question": "Wo steht der Server?", "value": "Halle 9"}, …],
     "passages": ["Hinter dem Haus liegt ein Teich.", …]}

An answer is right if it has the `value` (of `accepted`, one) as whole words and none that was corrected. Of facts that
have a `reworded` question every second one is asked so. `spare_facts`, at least seven, are those of the rows that ask
one question each. Statements are told in their order; those of `corrected` are two or three, with a value each, the
last of which holds. Long texts are made of `passages`, any number of times.
"""

import random
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from v14.check import unrelated
from v14.check.facts import Fact
from v14.check.questions import Questions
from v14.check.related import Related
from v14.check.scoring import contains
from v14.check.suite import NUM_SPARE
from v14.errors import CheckError

BYTES_PER_WORD = 6
"""Not every language has spaces: what the length of a text is counted by."""

ADVICE = "Correct the file, or leave --questions out to ask the package's own."

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Fact(_Entry):
    statement: Text
    question: Text
    reworded: Text | None = None
    value: Text

    @model_validator(mode="after")
    def _answerable(self) -> Self:
        _told(self.value, self.statement)
        for question in (self.question, self.reworded or ""):
            _not_given_away(question, [self.value])
        return self


class _General(_Entry):
    question: Text
    accepted: Annotated[tuple[Text, ...], Field(min_length=1)]


class _Corrected(_Entry):
    statements: Annotated[tuple[Text, ...], Field(min_length=2, max_length=3)]
    question: Text
    values: tuple[Text, ...]

    @model_validator(mode="after")
    def _answerable(self) -> Self:
        if len(self.values) != len(self.statements):
            raise ValueError(f"{len(self.statements)} statements with {len(self.values)} values; each has one")
        for value, statement in zip(self.values, self.statements, strict=True):
            _told(value, statement)
        if contains(self.values[-1], self.values[:-1]):
            raise ValueError(f"the last value {self.values[-1]!r} has an earlier one in it; give one that differs")
        _not_given_away(self.question, self.values)
        return self


class _TwoStep(_Entry):
    statements: Annotated[tuple[Text, ...], Field(min_length=2, max_length=2)]
    question: Text
    value: Text

    @model_validator(mode="after")
    def _answerable(self) -> Self:
        _told(self.value, " ".join(self.statements))
        _not_given_away(self.question, [self.value])
        return self


class _File(_Entry):
    facts: Annotated[tuple[_Fact, ...], Field(min_length=1)]
    spare_facts: tuple[_Fact, ...] = ()
    unrelated: tuple[_General, ...] = ()
    chats: tuple[Text, ...] = ()
    corrected: tuple[_Corrected, ...] = ()
    two_step: tuple[_TwoStep, ...] = ()
    passages: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if 0 < len(self.spare_facts) < NUM_SPARE:
            raise ValueError(f"there are {len(self.spare_facts)} spare_facts; give at least {NUM_SPARE}, or none")
        owner: dict[str, str] = {}
        for place, values in self._values():
            for value in values:
                other = owner.setdefault(value.casefold(), place)
                if other != place:
                    raise ValueError(
                        f"{other} and {place} share the value {value!r}, so that one's answer would be right for the "
                        "other; give each its own"
                    )
        return self

    def _values(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Where a value is told, and which."""
        for part in ("facts", "spare_facts", "two_step"):
            yield from ((f"{part}.{number}", (entry.value,)) for number, entry in enumerate(getattr(self, part)))
        yield from ((f"corrected.{number}", entry.values) for number, entry in enumerate(self.corrected))


def load(path: Path, seed: int) -> Questions:
    """The questions in a file; the seed decides how long texts are put together.

    Raises `CheckError`, naming the file, the entry, what is wrong with it and the remedy.
    """
    try:
        found = _File.model_validate_json(path.read_bytes())
    except OSError as error:
        raise CheckError(f"the questions {path} cannot be read ({error}). {ADVICE}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        wrong = first["msg"].removeprefix("Value error, ")
        raise CheckError(f"the questions {path}: {place + ': ' if place else ''}{wrong}. {ADVICE}") from error
    changed = [
        Related(statements=e.statements, question=e.question, value=e.values[-1], outdated=e.values[:-1])
        for e in found.corrected
    ]
    return Questions(
        facts=_facts(found.facts),
        spare_facts=_facts(found.spare_facts),
        unrelated=[unrelated.Question(text=entry.question, accepted=entry.accepted) for entry in found.unrelated],
        chats=found.chats,
        corrected_once=[fact for fact in changed if len(fact.statements) == 2],
        corrected_twice=[fact for fact in changed if len(fact.statements) == 3],
        two_step=[Related(statements=e.statements, question=e.question, value=e.value) for e in found.two_step],
        long_text=partial(_long_text, found.passages, seed) if found.passages else None,
        source=path.name,
    )


def _facts(entries: tuple[_Fact, ...]) -> list[Fact]:
    facts = []
    for number, entry in enumerate(entries):
        reworded = entry.reworded if number % 2 else None
        question = reworded or entry.question
        facts.append(
            Fact(statement=entry.statement, question=question, value=entry.value, paraphrased=reworded is not None)
        )
    return facts


def _long_text(passages: tuple[str, ...], seed: int, number: int, middle: str, num_words: int) -> str:
    """Passages in a random order, over and over, with `middle` in the middle."""
    draw = random.Random(f"passages {seed} {number}")
    chosen: list[str] = []
    left = num_words * BYTES_PER_WORD
    while left > 0:
        for text in draw.sample(passages, len(passages)):
            chosen.append(text)
            left -= len(text.encode()) + 1
            if left <= 0:
                break
    return " ".join(filter(None, [*chosen[: len(chosen) // 2], middle, *chosen[len(chosen) // 2 :]]))


def _told(value: str, statement: str) -> None:
    if not contains(statement, [value]):
        raise ValueError(
            f"{statement!r} does not tell the value {value!r} as whole words, by which an answer is found right"
        )


def _not_given_away(question: str, values: Iterable[str]) -> None:
    if contains(question, values):
        raise ValueError(f"the question {question!r} has the answer in it; ask without it")
