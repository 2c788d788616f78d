"""What plans are made of, in one file, so that rules and thresholds can be studied without the model.

    python -m benchmarks.recall.study DIR --seed N --out FILE [--hybrid] [--questions 40] [--events 3000]
    python -m benchmarks.recall.study DIR --calibration [SET.json] --out FILE
    python -m benchmarks.recall.study DIR --documents FILE --out FILE

Tells a woven world, a calibration set, or real paragraphs in the form of MuSiQue's file, to a V14 directory's model and
writes for every question the votes of all events, and for the best ones which tokens of the question the votes rest on.
Seeds that are reported (0, 1, 2) are refused, and so are MuSiQue's own questions: nothing is tuned on them.
"""

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.recall import musique
from benchmarks.recall.chats import Case, Chat, World, Woven, weave
from benchmarks.recall.english.talk import ACKNOWLEDGEMENTS
from benchmarks.recall.english.world import English
from benchmarks.recall.hybrid_world import HybridWorld
from benchmarks.recall.reading import Reader
from benchmarks.recall.run import until
from benchmarks.recall.told import Told, tell
from v14.check.facts import SUBJECTS, generate
from v14.recall.weighing import MAX_WEIGHED
from v14.recall.wording import Wording
from v14.upgrade.calibration import CalibrationSet, own
from v14.upgrade.calibration.doubts import doubts
from v14.upgrade.make import SEED

REPORTED = (0, 1, 2)
WEIGHED = 160
"""Events of a question of which the weights of its tokens are kept: those needed, and what a plan weighs."""

ROWS = {
    "single fact": 1.0,
    "paraphrase": 1.0,
    "two-step": 1.0,
    "corrected": 0.5,
    "temporal": 0.5,
    "absent": 2.0,
    "general": 0.5,
    "line in 2k": 0.5,
    "german": 0.25,
    "chinese": 0.25,
}
"""Rows, and their questions as a share of `--questions`."""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument(
        "--calibration", nargs="?", const="", metavar="FILE", help="a set's doubts; by default the package's"
    )
    parser.add_argument("--documents", type=Path, metavar="FILE", help="questions and paragraphs as in MuSiQue's file")
    parser.add_argument("--hybrid", action="store_true", help="a small hybrid, which reads a language of its own")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--events", type=int, default=3_000)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.seed in REPORTED:
        parser.error(f"seed {arguments.seed} is reported; study another")
    if arguments.documents is not None and (num := musique.num_reported(arguments.documents)):
        parser.error(f"{num} questions of {arguments.documents} are MuSiQue's, which is reported; study others")
    torch.manual_seed(arguments.seed)
    reader = Reader(arguments.directory, arguments.device)
    if arguments.calibration is not None:
        texts = own.load(Path(arguments.calibration)) if arguments.calibration else doubts(SEED)
        cases, others = calibrating(texts.doubts or texts)
        woven = weave(random.Random(f"study {arguments.seed}"), cases, others)
    elif arguments.documents is not None:
        data = musique.load(arguments.documents, arguments.questions)
        woven = Woven(cases=data.cases, chats=data.chats)
    else:
        woven = _woven(arguments)
    told = tell(reader, woven.chats, "study")
    print(f"{len(told.events)} events read", flush=True)
    save(arguments.out, reader, told, woven.cases)
    print(f"{arguments.out}: {len(woven.cases)} questions, {arguments.out.stat().st_size:,} bytes")


def _woven(arguments: argparse.Namespace) -> Woven:
    world: World = HybridWorld(arguments.seed) if arguments.hybrid else English(arguments.seed)
    cases = [
        case
        for row, share in ROWS.items()
        if row in world.rows
        for case in world.cases(row, max(1, round(share * arguments.questions)))
    ]
    if not arguments.hybrid:
        cases += checked(arguments.seed, arguments.questions)
    num_own = sum(len(chat.turns) for case in cases for chat in case.chats)
    others = until(world.distractors(), arguments.events - num_own)
    return weave(random.Random(f"study {arguments.seed}"), cases, others)


def calibrating(texts: CalibrationSet) -> tuple[list[Case], list[Chat]]:
    """The questions of a calibration set as cases, and the chats that belong to none of them."""
    chats: dict[int, list[Chat]] = {}
    others = []
    for chat in texts.chats:
        if chat.fact is None:
            others.append(Chat(turns=chat.turns))
        else:
            chats.setdefault(chat.fact, []).append(Chat(turns=chat.turns))
    cases = []
    for question in texts.questions:
        if question.fact is None:
            row = "absent" if question.stranger else "general"
            cases.append(Case(row=row, chats=(), question=question.text))
            continue
        facts = [question.fact] if question.then is None else [question.fact, question.then]
        cases.append(
            Case(
                row="fact" if question.then is None else "two-step",
                chats=tuple(chat for fact in facts for chat in chats[fact]),
                question=question.text,
                needed=tuple(chats[fact][-1].turns[0][1] for fact in facts),
                group=question.fact,
            )
        )
    return cases, others


def checked(seed: int, num: int) -> list[Case]:
    """Facts as `v14 check` tells them, and questions about subjects that nothing is told of."""
    facts = generate(seed, min(2 * num, len(SUBJECTS)))
    told = facts[: len(facts) // 2]
    cases = [
        Case(
            row="check reworded" if fact.paraphrased else "check direct",
            chats=(Chat(turns=(("user", fact.statement), ("assistant", ACKNOWLEDGEMENTS[0]))),),
            question=fact.question,
            accepted=(fact.value,),
            needed=(fact.statement,),
        )
        for fact in told
    ]
    return cases + [Case(row="check absent", chats=(), question=fact.question) for fact in facts[len(told) :]]


def save(out: Path, reader: Reader, told: Told, cases: Sequence[Case]) -> None:
    """Write the file: arrays, and everything else as JSON."""
    events = list(told.events.values())
    places = {event.id: place for place, event in enumerate(events)}
    space = reader.memory.space(told.session.namespace)
    votes = np.zeros((len(cases), len(events)), dtype=np.float16)
    asked: list[list[int]] = []
    weighed = np.full((len(cases), WEIGHED), -1, dtype=np.int32)
    weights: list[np.ndarray] = []
    for number, case in enumerate(cases):
        ids = reader.ids((("user", case.question),), generate=True)
        start = told.session.layout(ids).new_start
        cue = reader.cue(ids, start)
        ballot = space.votes(cue)
        found = ballot.of(places)
        votes[number] = [found[event.id] for event in events]
        asked.append(ids[start:])
        needed = [event_id for one in told.needed(case) for event_id in sorted(one)]
        best = [vote.event_id for vote in ballot.best(MAX_WEIGHED)]
        named = Wording([space.lexicon], ids[start:]).named(MAX_WEIGHED)
        own = list(dict.fromkeys([*needed, *best, *named]))[:WEIGHED]
        weighed[number, : len(own)] = [places[event_id] for event_id in own]
        weights.append(space.token_weights(cue, own).numpy().astype(np.float16))
    data: dict[str, Any] = {
        "options": reader.profile.options.model_dump(),
        "measured": dict(reader.profile.measured),
        "events": [
            {
                "id": event.id,
                "parent": event.parent,
                "tokens": list(event.token_ids),
                "closing_len": event.closing_len,
                "said_at": event.said_at,
                "role": event.role,
                "chat": event.chat_id,
                "asks": bool(reader.memory.asks(event)),
                "text": told.texts[event.id],
            }
            for event in events
        ],
        "cases": [
            {
                **asdict(case),
                "chats": [chat.said_at for chat in case.chats],
                "asked": tokens,
                "needed": [[places[event_id] for event_id in sorted(one)] for one in told.needed(case)],
                "history": bool(reader.profile.asks_history(tokens)),
            }
            for case, tokens in zip(cases, asked, strict=True)
        ],
        "links": [
            [places[link.source], places[link.target], link.weight]
            for link in reader.memory.store.links(told.session.namespace)
        ],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        out,
        votes=votes,
        weighed=weighed,
        weights=np.concatenate([each.reshape(-1) for each in weights]),
        data=np.frombuffer(json.dumps(data, ensure_ascii=False).encode(), dtype=np.uint8),
    )


if __name__ == "__main__":
    main()
