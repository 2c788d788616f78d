"""One model through the whole benchmark: tell, ask every system, answer, MuSiQue, the cost of growing."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.recall import answers, cost, evidence, musique, placed
from benchmarks.recall.baselines import Bm25, Encoder, MiniLm, Ranker
from benchmarks.recall.chats import Case, Chat, World, Woven, weave
from benchmarks.recall.cost import Growth
from benchmarks.recall.english.world import English
from benchmarks.recall.reading import ANSWER_TOKENS, Reader
from benchmarks.recall.table import BASELINES, IN_CONTEXT, PLACED, Row
from benchmarks.recall.told import Told, tell


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is measured: `questions` of a row, `events` in the store (at least), only some `rows` (all if None; with
    none, nothing but MuSiQue), questions of `musique`. Where everything is in context: `few_questions` among
    `few_events`, `placed` of them with events placed. Sizes of a growing store, and the gigabytes that its index may
    take."""

    questions: int
    events: int
    musique: int
    few_questions: int
    few_events: int = 100
    placed: int = 10
    rows: Sequence[str] | None = None
    growth: tuple[int, ...] = cost.SIZES
    growth_gb: float = 4.0


GPU_ROWS = ("line in 32k",)
"""Rows that a CPU is not asked for unless they are named."""

FULL = Size(questions=100, events=10_000, musique=150, few_questions=100)
QUICK = Size(
    questions=10,
    events=1_000,
    musique=10,
    few_questions=10,
    rows=tuple(row for row in English.rows if row not in ("line in 8k", *GPU_ROWS)),
    growth=(100, 300, 1_000, 3_000, 10_000),
    growth_gb=2.0,
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A model's rows, how its recall's cost grew, and every question with its replies, for people to read."""

    rows: list[Row]
    growth: Growth
    replies: list[dict[str, Any]]


def measure(
    name: str,
    directory: Path,
    world: World,
    seed: int,
    size: Size,
    *,
    device: str = "cpu",
    musique_file: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
    keep: Callable[[list[Row]], None] = lambda rows: None,
) -> Measured:
    """Everything about one model. A MuSiQue file of None leaves those rows out. `say` is told what was done, `keep` is
    given all rows so far."""
    reader, encoder = Reader(directory, device), Encoder(device)
    clock = _Clock(say)
    draw = random.Random(f"weave {seed}")
    cases = [
        case for row in world.rows if size.rows is None or row in size.rows for case in world.cases(row, size.questions)
    ]
    cases = [case for case in cases if _fits(reader, case)]
    num_own = sum(len(chat.turns) for case in cases for chat in case.chats)
    woven = weave(draw, cases, until(world.distractors(), size.events - num_own))
    told = tell(reader, woven.chats, "all")
    clock(f"{name}: {len(told.events)} events read")
    rankers = _rankers(encoder, told)
    clock(f"{name}: {len(told.events)} events embedded")
    found: list[evidence.Found] = []
    for row in dict.fromkeys(case.row for case in woven.cases):
        found += evidence.look(reader, told, rankers, [case for case in woven.cases if case.row == row])
        keep(evidence.rows(name, found))
        clock(f"{name}: {row} asked")
    rows = evidence.rows(name, found)
    asked = [each for each in found if each.case.accepted]
    made = [answers.prompts(reader, world, told, each, BASELINES) for each in asked]
    replies = answers.answer(reader, made)
    rows += answers.rows(name, [each.case for each in asked], replies)
    keep(rows)
    clock(f"{name}: {len(asked)} questions answered")
    if size.few_questions:
        reader.forget()
        rows += _few(name, reader, encoder, world, woven, size)
        keep(rows)
        clock(f"{name}: {IN_CONTEXT} answered")
    if musique_file is not None and size.musique:
        reader.forget()
        data = musique.load(musique_file, size.musique)
        real = tell(reader, data.chats, "musique")
        pages, evident = musique.evidence(name, reader, real, _rankers(encoder, real), data.cases)
        rows += evident
        keep(rows)
        rows += musique.answered(name, reader, world, real, BASELINES, pages)
        keep(rows)
        clock(f"{name}: {len(data.cases)} questions of MuSiQue among {len(real.events)} events")
    if not woven.cases:
        return Measured(rows=rows, growth=Growth(model=name, sizes=(), seconds=()), replies=[])
    reader.forget()
    others = chain(woven.chats, world.distractors())
    growth = cost.grow(name, reader, woven.chats[: cost.READ_CHATS], others, woven.cases, size.growth, size.growth_gb)
    clock(f"{name}: grown to {growth.sizes[-1]:,} events")
    said = [
        {"model": name, "row": case.row, "question": case.question, "accepted": case.accepted, "replies": reply}
        for case, reply in zip((each.case for each in asked), replies, strict=True)
    ]
    return Measured(rows=rows + cost.rows(growth), growth=growth, replies=said)


def _few(name: str, reader: Reader, encoder: Encoder, world: World, woven: Woven, size: Size) -> list[Row]:
    """The answers when so little is stored that all of it fits in the context."""
    cases: list[Case] = []
    num_events = 0
    wanted = ("single fact", "paraphrase", "two-step", "corrected", "temporal")
    for case in sorted((c for c in woven.cases if c.row in wanted), key=lambda c: c.chats[0].said_at):
        num_events += sum(len(chat.turns) for chat in case.chats)
        if num_events > size.few_events or len(cases) == size.few_questions:
            break
        cases.append(case)
    own = {chat.said_at for case in cases for chat in case.chats}
    taken = {chat.said_at for case in woven.cases for chat in case.chats}
    others = [chat for chat in woven.chats if chat.said_at not in taken]
    others = until(iter(others), size.few_events - num_events)
    chats = sorted([*(c for c in woven.chats if c.said_at in own), *others], key=lambda chat: chat.said_at)
    told = tell(reader, chats, "few")
    found = evidence.look(reader, told, _rankers(encoder, told), cases)
    made = []
    for each in found:
        prompts = answers.prompts(reader, world, told, each, BASELINES)
        ids = answers.everything(reader, chats, each.case)
        made.append(prompts | ({IN_CONTEXT: ids} if len(ids) < reader.max_tokens else {}))
    replies = answers.answer(reader, made)
    if reader.profile.options.reinstate == "kv":
        own_replies = placed.replies(reader, chats, cases[: size.placed])
        for reply, text in zip(replies, own_replies, strict=False):
            reply[PLACED] = text
    row = f"among {len(told.events)} events"
    few = [_renamed(case, row) for case in cases]
    rows = answers.rows(name, few, replies)
    if reader.profile.options.reinstate == "kv":
        rows += answers.rows(name, [_renamed(case, f"{row}, a sample") for case in cases[: size.placed]], replies)
    return rows


def until(chats: Iterator[Chat], num_turns: int) -> list[Chat]:
    """The first chats that have `num_turns` turns together; every short turn is an event."""
    taken: list[Chat] = []
    while num_turns > 0 and (chat := next(chats, None)) is not None:
        taken.append(chat)
        num_turns -= len(chat.turns)
    return taken


def _renamed(case: Case, row: str) -> Case:
    return Case(row=row, chats=case.chats, question=case.question, accepted=case.accepted)


def _rankers(encoder: Encoder, told: Told) -> Mapping[str, Ranker]:
    texts = list(told.texts.values())
    return {"BM25": Bm25(texts), "MiniLM": MiniLm(encoder, texts)}


def _fits(reader: Reader, case: Case) -> bool:
    """Whether the model can read the chats that a case is about."""
    longest = max((len(text) for chat in case.chats for _, text in chat.turns), default=0)
    if longest < reader.max_tokens:
        return True
    return len(answers.same_chat(reader, case)) + ANSWER_TOKENS <= reader.max_tokens


class _Clock:
    """Says what was done and how long it took."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._since = time.perf_counter()

    def __call__(self, what: str) -> None:
        now = time.perf_counter()
        self._say(f"{what} ({now - self._since:.0f} s)")
        self._since = now
