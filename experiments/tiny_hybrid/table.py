"""The table of the small hybrids: what keys and values are worth, what engrams are worth, against the same chat.

    python -m experiments.tiny_hybrid.table [--seed N] [--cases 200] [--models DIR ...]

Prints it and writes `build/hybrid.json`. `parts` says what of the events was brought back: `same chat` is the ceiling.
`recall` is `given` where the right events were placed whatever the votes, and `memory` where the model's own voters
chose; `found` counts the questions for which those recalled every event needed.
"""

import argparse
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from experiments.tiny_hybrid.calibration import calibration_set
from experiments.tiny_hybrid.reader import RANKS, Parts, Reader, Told
from experiments.tiny_hybrid.telling import ROWS, case
from v14.upgrade import upgrade

HERE = Path(__file__).resolve().parent
MODELS = (HERE / "qwen3_5", HERE / "nemotron_h")
BUILD = Path("build")
TOKEN_ID_BYTES = 8

Key = tuple[str, str, int, str]
"""(reinstate, parts, rank, recall)."""


def answers(reader: Reader, told: Told) -> Iterator[tuple[Key, bool]]:
    """Whether the question is answered right, in every way."""
    yield ("kv", "same chat", 0, "given"), reader.same_chat(told)
    yield ("reread", "kv", 0, "given"), reader.reread(told)
    yield ("kv", "kv", 0, "given"), reader.placed(told, "kv", [0])[0]
    parts: Parts
    for parts in ("engram", "both"):
        for rank, is_right in zip(RANKS, reader.placed(told, parts, RANKS), strict=True):
            yield ("kv", parts, rank, "given"), is_right


def bytes_per_event(reader: Reader, told: Told, key: Key) -> float:
    """Mean bytes to be kept of an event for this way: its token ids, its keys at the voters, and what is placed."""
    reinstate, parts, rank, _ = key
    if parts == "same chat":
        return 0.0
    sizes = []
    voters = reader.memory.profile.voters.slots(reader.memory.profile.geometry)
    for event, trace in zip(told.events, told.traces[rank], strict=True):
        keys = trace.keys[voters].numel() * trace.keys.element_size()
        if reinstate == "reread":
            size = keys
        elif parts == "engram" and trace.engram is not None:
            size = keys + trace.engram.num_bytes
        else:
            size = trace.num_bytes
        sizes.append(TOKEN_ID_BYTES * event.num_tokens + size)
    return sum(sizes) / len(sizes)


def upgraded(checkpoint: Path, device: str = "cpu") -> Path:
    """The V14 directory of a checkpoint, made where that was not done, calibrated in the models' own language;
    `device` is where it reads the calibration set."""
    directory = BUILD / "hybrid" / checkpoint.name
    texts: Path | None = None
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        texts = directory.parent / "calibration.json"
        texts.write_text(json.dumps(calibration_set(0)))
    upgrade(
        checkpoint, directory, calibration=texts, device=device
    )  # one that is there is left as it is, if its weights are these
    return directory


def measure(directory: Path, question: str, seed: int, num_cases: int) -> list[dict[str, Any]]:
    """The rows of one model and kind of question, on one core."""
    torch.set_num_threads(1)
    right: Counter[Key] = Counter()
    size: defaultdict[Key, float] = defaultdict(float)
    found = 0
    with tempfile.TemporaryDirectory() as home:
        reader = Reader(directory, Path(home))
        for number in range(num_cases):
            told = reader.tell(case(seed, question, number))
            for key, is_right in answers(reader, told):
                right[key] += is_right
                size[key] += bytes_per_event(reader, told, key) / num_cases
            is_right, is_found = reader.recalled(told)
            own: Key = (reader.memory.profile.options.reinstate, "kv", 0, "memory")
            right[own] += is_right
            found += is_found
        reader.memory.close()
    return [
        {
            "model": directory.name,
            "question": question,
            "reinstate": reinstate,
            "parts": parts,
            "rank": "full" if rank == RANKS[-1] else rank,
            "recall": recall,
            "right": count,
            "of": num_cases,
            "bytes_per_event": round(size[reinstate, parts, rank, "given"]),
        }
        | ({"found": found} if recall == "memory" else {})
        for (reinstate, parts, rank, recall), count in right.items()
    ]


def show(rows: list[dict[str, Any]]) -> str:
    """The table as text: a line for each way, a column for each kind of question."""
    lines = []
    for model in dict.fromkeys(row["model"] for row in rows):
        lines += ["", model, f"{'':28}" + "".join(f"{question:>15}" for question in ROWS) + f"{'bytes/event':>13}"]
        of_model = [row for row in rows if row["model"] == model]
        ways = dict.fromkeys((row["reinstate"], row["parts"], row["rank"], row["recall"]) for row in of_model)
        for way in ways:
            reinstate, parts, rank, recall = way
            name = {"same chat": "same chat"}.get(parts, f"{reinstate}, {parts} {rank or ''}".rstrip())
            if recall == "memory":
                name = "own recall, " + name
            cells = {
                row["question"]: row
                for row in of_model
                if (row["reinstate"], row["parts"], row["rank"], row["recall"]) == way
            }
            shares = "".join(f"{cells[question]['right'] / cells[question]['of']:>15.3f}" for question in ROWS)
            size = sum(row["bytes_per_event"] for row in cells.values()) / len(cells)
            lines.append(f"{name:28}{shares}{size:>13.0f}")
    return "\n".join(lines)


def main() -> None:
    """Upgrade the models where that was not done, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--models", type=Path, nargs="+", default=list(MODELS))
    arguments = parser.parse_args()
    directories = [upgraded(checkpoint) for checkpoint in arguments.models]
    tasks = [(directory, question, arguments.seed, arguments.cases) for directory in directories for question in ROWS]
    with ProcessPoolExecutor(len(directories), get_context("spawn"), max_tasks_per_child=1) as pool:
        rows = [row for rows in pool.map(measure, *zip(*tasks, strict=True)) for row in rows]
    print(show(rows))
    (BUILD / "hybrid.json").write_text(json.dumps({"seed": arguments.seed, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
