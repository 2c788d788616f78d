"""MuSiQue: real two-hop questions with the paragraphs that a search returned (Trivedi et al., 2022, CC BY 4.0).

The file is a list of `{"ctxs": [{"title", "text"}, ...], "question", "answers"}`, in the form and the sample of 150
that CacheBlend evaluates on (github.com/YaoJiayi/CacheBlend, `inputs/musique_s.json`), and no part of this repository.
Supporting paragraphs are not marked, so a paragraph counts as evidence where it belongs to the question and holds an
accepted answer. All paragraphs of all questions stand in one store.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.recall import answers, scoring
from benchmarks.recall.baselines import Ranker
from benchmarks.recall.chats import FIRST_SAID_AT, SECONDS_APART, Case, Chat, World
from benchmarks.recall.evidence import MEMORY, TOP, VOTERS, Found, look
from benchmarks.recall.reading import Reader
from benchmarks.recall.table import SAME_CHAT, Row
from benchmarks.recall.told import Told
from v14.check.scoring import contains

NAME = "MuSiQue"
REPORTED = frozenset((Path(__file__).parent / "musique.sha256").read_text().split())
"""Digests of the sample's questions. They are what is reported: nothing is tuned on them."""

CANDIDATES = 40
"""Events that a system is asked for, so that they make `TOP` different paragraphs."""


@dataclass(frozen=True, kw_only=True)
class Musique:
    """Questions and, as chats of one turn, the paragraphs of all of them."""

    cases: tuple[Case, ...]
    chats: tuple[Chat, ...]


def load(file: Path, num: int) -> Musique:
    """The first `num` questions of which a paragraph holds an answer."""
    cases: list[Case] = []
    chats: dict[str, Chat] = {}
    for entry in json.loads(file.read_text()):
        own = []
        for paragraph in entry["ctxs"]:
            text = f"{paragraph['title']} {paragraph['text']}".strip()
            said_at = FIRST_SAID_AT + SECONDS_APART * len(chats)
            own.append(chats.setdefault(text, Chat(turns=(("user", text),), said_at=said_at)))
        accepted = tuple(entry["answers"])
        holding = tuple(chat for chat in own if contains(chat.turns[0][1], accepted))
        if holding:
            question = entry["question"] + " Answer with as few words as possible."
            cases.append(Case(row=NAME, chats=holding, question=question, accepted=accepted))
        if len(cases) == num:
            break
    return Musique(cases=tuple(cases), chats=tuple(chats.values()))


def digest(question: str) -> str:
    """The first 64 bits of SHA-256, in hexadecimal digits."""
    return hashlib.sha256(question.encode()).hexdigest()[:16]


def num_reported(file: Path) -> int:
    """How many questions of a file are of the sample that is reported."""
    return sum(digest(entry["question"]) in REPORTED for entry in json.loads(file.read_text()))


def evidence(
    model: str, reader: Reader, told: Told, rankers: Mapping[str, Ranker], cases: Sequence[Case]
) -> tuple[list[Found], list[Row]]:
    """What every system finds, and the rows about it."""
    found = look(reader, told, rankers, cases, num=CANDIDATES)
    table = []
    for system in (VOTERS, MEMORY, *rankers):
        value = sum(_is_found(told, each, each.ranked[system]) for each in found) / len(found)
        row = f"{NAME}: answer in the top {TOP}"
        table.append(Row(model=model, row=row, system=system, value=value, of=len(found)))
    for system in found[0].plans:
        value = sum(_is_found(told, each, each.plans[system]) for each in found) / len(found)
        table.append(Row(model=model, row=f"{NAME}: answer in the plan", system=system, value=value, of=len(found)))
    return found, table


def answered(
    model: str, reader: Reader, world: World, told: Told, systems: Sequence[str], found: Sequence[Found]
) -> list[Row]:
    """The rows about answers of the memory, and of text RAG with other systems."""
    made = [answers.prompts(reader, world, told, each, systems) for each in found]
    # The paragraphs that hold the answer were found by knowing it: no system could, so there is no ceiling.
    made = [{system: ids for system, ids in each.items() if system != SAME_CHAT} for each in made]
    replies = answers.answer(reader, made)
    table = []
    for system in (MEMORY, VOTERS, *(f"RAG {name}" for name in systems)):
        values = [scoring.f1(reply[system], each.case.accepted) for each, reply in zip(found, replies, strict=True)]
        mean = sum(values) / len(values)
        table.append(Row(model=model, row=f"{NAME}: answer F1", system=system, value=mean, of=len(values)))
    return table


def _is_found(told: Told, found: Found, events: Sequence[str]) -> bool:
    """Whether one of the first `TOP` paragraphs that the events belong to holds the answer."""
    paragraphs = list(dict.fromkeys(told.events[event_id].said_at for event_id in events))[:TOP]
    return any(chat.said_at in paragraphs for chat in found.case.chats)
