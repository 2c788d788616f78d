"""A calibration set of one's own, for a model whose language or subjects the package's set is not of.

A JSON file:

    {"chats": [{"turns": [["user", "The boat is called Ada."], ["assistant", "Okay."]], "fact": 0}, …],
     "questions": [{"text": "What is the boat called?", "fact": 0, "held_out": false}, …],
     "null": "N/A"}

    {"text": "What is the raft called?", "fact": null, "held_out": false, "stranger": true} asks for nothing stored
    {"text": "Where is the boat of the mate moored?", "fact": 3, "then": 5, …} needs both, the second found by the first

`fact` (0 or more) of a chat numbers what its first turn states, `fact` of a question what it should recall; without
one, nothing. Turns alternate, a user's first, as chat templates ask for. Questions with `held_out` choose no voters:
they measure them, so about half of each kind should have it. How sure a plan has to be is chosen with the questions of
a second set, `"doubts": {"chats": …, "questions": …}`, or of the same one where there is none; strangers in it should
look like what was told, those of which only one or two things of their kind were, are `lonely`.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from v14.errors import UpgradeError
from v14.upgrade.calibration.build import CalibrationSet, Chat, Question

MIN_QUESTIONS = 8
"""Least number of questions about facts, and of others, in each half: with fewer, thresholds mean nothing."""

ROLES: tuple[Literal["user", "assistant"], ...] = ("user", "assistant")
"""Of a chat's turns, in turn."""

REMEDY = "Correct the file, or leave --calibration out to use the package's own set."

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Fact = Annotated[int, Field(ge=0)]


class _Chat(BaseModel):
    model_config = ConfigDict(extra="forbid")
    turns: Annotated[tuple[tuple[Literal["user", "assistant"], Text], ...], Field(min_length=1)]
    fact: Fact | None = None

    @model_validator(mode="after")
    def _alternating(self) -> Self:
        if any(role != ROLES[place % 2] for place, (role, _) in enumerate(self.turns)):
            raise ValueError(f"turns are {[role for role, _ in self.turns]}; they alternate, a user's first")
        return self


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: Text
    fact: Fact | None = None
    held_out: bool
    stranger: bool = False
    lonely: bool = False
    then: Fact | None = None

    @model_validator(mode="after")
    def _nothing_told(self) -> Self:
        if self.stranger and self.fact is not None:
            raise ValueError(
                f"question {self.text!r} is of a stranger and asks for fact {self.fact}; it is one of both"
            )
        return self


class _Set(BaseModel):
    model_config = ConfigDict(extra="forbid")
    chats: tuple[_Chat, ...]
    questions: tuple[_Question, ...]

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        stated: dict[str, int] = {}
        for chat in self.chats:
            statement = chat.turns[0][1]
            if chat.fact is not None and stated.setdefault(statement, chat.fact) != chat.fact:
                raise ValueError(f"{statement!r} is said to state fact {stated[statement]} and fact {chat.fact}")
        for question in self.questions:
            for fact in (question.fact, question.then):
                if fact is not None and fact not in stated.values():
                    raise ValueError(f"question {question.text!r} asks for fact {fact}, which no chat states")
        return self


class _File(_Set):
    null: Text = "N/A"
    doubts: _Set | None = None

    @model_validator(mode="after")
    def _enough(self) -> Self:
        for held_out in (False, True):
            half = [q for q in self.questions if q.held_out == held_out and not q.stranger]
            about_facts = sum(question.fact is not None for question in half)
            if min(about_facts, len(half) - about_facts) < MIN_QUESTIONS:
                raise ValueError(
                    f"of the questions with held_out {str(held_out).lower()}, {about_facts} ask for a fact and "
                    f"{len(half) - about_facts} for nothing stored; at least {MIN_QUESTIONS} of each are needed"
                )
        return self


def load(path: Path) -> CalibrationSet:
    """The set in a file. Raises `UpgradeError`, naming the file, what is wrong with it and the remedy."""
    try:
        found = _File.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UpgradeError(f"the calibration set {path} cannot be read ({error}). {REMEDY}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        wrong = first["msg"].removeprefix("Value error, ")
        raise UpgradeError(f"the calibration set {path}: {place + ': ' if place else ''}{wrong}. {REMEDY}") from error
    second = None if found.doubts is None else _made(found.doubts, found.null, None)
    return _made(found, found.null, second)


def _made(found: _Set, null: str, second: CalibrationSet | None) -> CalibrationSet:
    return CalibrationSet(
        chats=tuple(Chat(turns=chat.turns, fact=chat.fact) for chat in found.chats),
        questions=tuple(
            Question(text=q.text, fact=q.fact, held_out=q.held_out, stranger=q.stranger, lonely=q.lonely, then=q.then)
            for q in found.questions
        ),
        null=null,
        doubts=second,
    )
