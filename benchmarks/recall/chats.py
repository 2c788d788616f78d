"""What a world hands over: chats with the times they were told at, and cases that ask about some of them."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

FIRST_SAID_AT = 1_767_261_600.0
"""When the first chat is told, in Unix seconds: a Thursday morning in January 2026."""

SECONDS_APART = 5_400.0
"""Chats follow one another at this distance."""

Turns = tuple[tuple[str, str], ...]
"""(role, text), the first one a user's."""


Passage = tuple[float, str]
"""When something was said, in Unix seconds, and what."""


@dataclass(frozen=True, kw_only=True)
class Chat:
    """One chat as it was told; `said_at` is in Unix seconds and 0 until the chat has its place among the others."""

    turns: Turns
    said_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question in a new chat about what was told in `chats`, which are in the order they are told.

    accepted: what a right reply contains one of; empty where nothing was told. needed: statements that hold what the
    answer takes, as they stand in the chats. refused: values that were told and are not asked for (old ones, or the
    word that a document tells its reader to say). group: cases of one row and group share their chats; -1 for none.
    """

    row: str
    chats: tuple[Chat, ...]
    question: str
    accepted: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    group: int = -1


@dataclass(frozen=True, kw_only=True)
class Woven:
    """Cases with the times of their chats, and all chats in the order they are told."""

    cases: tuple[Case, ...]
    chats: tuple[Chat, ...]


class World(Protocol):
    """A language of its own: cases of some rows, and chats about other things without end."""

    rows: tuple[str, ...]

    def cases(self, row: str, num: int) -> list[Case]:
        """The first `num` cases of a row. Subjects never occur twice, whatever rows are asked for."""

    def distractors(self) -> Iterator[Chat]:
        """Chats that say nothing about any case's subject; they never end."""

    def context(self, passages: Sequence[Passage], question: str) -> Turns:
        """The turns of a prompt that shows a reader passages, oldest first, and asks."""


def weave(draw: random.Random, cases: Sequence[Case], others: Sequence[Chat]) -> Woven:
    """Tell everything in one order: the chats of a case (or group) in theirs, the others in between."""
    lists: dict[tuple[str, int], list[Chat]] = {}
    for number, case in enumerate(cases):
        lists.setdefault((case.row, case.group) if case.group >= 0 else ("", number), list(case.chats))
    lists["others", -1] = list(others)
    order = [key for key, chats in lists.items() for _ in chats]
    draw.shuffle(order)
    rest = {key: iter(chats) for key, chats in lists.items()}
    told: list[Chat] = []
    timed: dict[tuple[str, int], list[Chat]] = {key: [] for key in lists}
    for key in order:
        chat = replace(next(rest[key]), said_at=FIRST_SAID_AT + SECONDS_APART * len(told))
        told.append(chat)
        timed[key].append(chat)
    placed = [
        replace(case, chats=tuple(timed[(case.row, case.group) if case.group >= 0 else ("", number)]))
        for number, case in enumerate(cases)
    ]
    return Woven(cases=tuple(placed), chats=tuple(told))
