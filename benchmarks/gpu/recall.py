"""Every model and seed of the recall benchmark at once, beside each other on one GPU.

    python -m benchmarks.gpu.recall run --models FOLDER --musique FILE --out OUT
    python -m benchmarks.gpu.recall study --models FOLDER --out OUT --seeds 31 32

`--device cpu --questions 2 --events 60` tries it out.

FOLDER holds the checkpoints that are run (`demo/small_models.py`; the small hybrids are in this repository). Each is
upgraded first, and then a process measures every seed, and every group of rows, `--at-once` of them beside each other:
the first seed of every model before the second of any. OUT has what is there so far at any moment: `recall.json` (all
rows), `replies.jsonl.xz`, `profiles.json` (options and what upgrades measured), `logs.txt`; of a study an archive for
each model. What has not ended after `--minutes` is ended, and what it had written stays.
"""

import argparse
import json
import lzma
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import PriorityQueue
from threading import Thread
from typing import Any

from benchmarks.recall import table
from experiments.tiny_hybrid.table import MODELS

HYBRIDS = tuple(path.name for path in MODELS)
RUN = {"smollm2": ("SmolLM2-135M-Instruct",), "hybrids": HYBRIDS, "qwen": ("Qwen2.5-Coder-0.5B-Instruct",)}
"""What `--models-run` names."""

KEPT_EVERY_S = 20.0
SHOWN = (
    "evidence in the top 5: single fact", "evidence in the top 5: paraphrase", "evidence in the plan: single fact",
    "evidence in the plan: paraphrase", "evidence in the plan: two-step", "answers: two-step", "answers: corrected",
    "answers: temporal", "recalls anything: absent", "recalls anything: general", "answers: line in 2k",
    "answers: line in 8k", "MuSiQue: answer in the top 5", "MuSiQue: answer F1", "obeys: instruction",
)  # fmt: skip
"""Rows of the short table."""


@dataclass(kw_only=True)
class Crew:
    """Commands side by side, each with a log of its own and a share of the cores."""

    room: Path
    deadline: float
    num_threads: int
    times: dict[str, float] = field(default_factory=dict)

    def run(self, name: str, command: Sequence[str]) -> bool:
        """Run `python -m` something to its end, or the deadline; whether it ended well."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            print(f"{name}: not begun, out of time", flush=True)
            return False
        threads = {"OMP_NUM_THREADS": str(self.num_threads), "MKL_NUM_THREADS": str(self.num_threads)}
        begin = time.monotonic()
        with (self.room / f"{name}.log").open("w") as log:
            try:
                done = subprocess.run(
                    [sys.executable, "-m", *command],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=os.environ | threads,
                    timeout=left,
                    check=False,
                )
                code: int | str = done.returncode
            except subprocess.TimeoutExpired:
                code = "out of time"
        self.times[name] = time.monotonic() - begin
        print(f"{name}: {code}, {self.times[name]:.0f} s", flush=True)
        return code == 0


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "study"))
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--musique", type=Path, default=Path("no MuSiQue"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument(
        "--rows",
        nargs="+",
        action="append",
        default=[],
        help="of models that chat in English, each time for a process; all if none is named",
    )
    parser.add_argument("--musique-questions", type=int, default=150)
    parser.add_argument("--hybrid-seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--hybrid-rows", nargs="*", default=[], help="of the small hybrids; all if none is named")
    parser.add_argument("--hybrid-questions", type=int, default=50)
    parser.add_argument("--hybrid-events", type=int, default=1_000)
    parser.add_argument("--minutes", type=float, default=13.5)
    parser.add_argument("--documents", type=Path, help="of a study: questions and paragraphs as in MuSiQue's file")
    parser.add_argument("--models-run", nargs="+", choices=RUN, default=["smollm2", "hybrids"])
    parser.add_argument("--at-once", type=int, default=0, help="processes; by default all")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = [name for run in arguments.models_run for name in RUN[run]]
    at_once = arguments.at_once or sum(len(_jobs(arguments, name)) for name in names)
    crew = Crew(
        room=arguments.models / "logs",
        deadline=time.monotonic() + 60 * arguments.minutes,
        num_threads=max(1, (os.cpu_count() or 1) // at_once),
    )
    crew.room.mkdir(exist_ok=True)
    waiting = _Waiting()
    for name in names:
        waiting.put(-1, partial(_begin, arguments, crew, waiting, name))
    for _ in range(at_once):
        Thread(target=waiting.work, daemon=True).start()
    kept_at = time.monotonic()
    while waiting.jobs.unfinished_tasks and time.monotonic() < crew.deadline + KEPT_EVERY_S:
        time.sleep(1)
        if time.monotonic() > kept_at + KEPT_EVERY_S:
            _keep(arguments, crew)
            kept_at = time.monotonic()
    _keep(arguments, crew)
    if arguments.verb == "run":
        print(_short(arguments, crew))


class _Waiting:
    """Jobs that wait, those of early seeds first."""

    def __init__(self) -> None:
        self.jobs: PriorityQueue[tuple[int, int, Callable[[], object]]] = PriorityQueue()
        self._num = 0

    def put(self, seed: int, job: Callable[[], object]) -> None:
        """`seed` is the place of a job's seed among those of its model."""
        self._num += 1
        self.jobs.put((seed, self._num, job))

    def work(self) -> None:
        """Do one job after the other."""
        while True:
            _, _, job = self.jobs.get()
            try:
                job()
            finally:
                self.jobs.task_done()


def _begin(arguments: argparse.Namespace, crew: Crew, waiting: _Waiting, name: str) -> None:
    """Upgrade one model; then its jobs wait."""
    if _upgrade(arguments, crew, name):
        for what, (seed, command) in _jobs(arguments, name).items():
            waiting.put(seed, partial(crew.run, what, command))


def _jobs(arguments: argparse.Namespace, name: str) -> dict[str, tuple[int, list[str]]]:
    """Commands of one model by what they are called, each with its seed's place."""
    jobs: dict[str, tuple[int, list[str]]] = {}
    for place, seed in enumerate(arguments.hybrid_seeds if name in HYBRIDS else arguments.seeds):
        made = _rows(arguments, name, seed) if arguments.verb == "run" else _study(arguments, name, seed)
        jobs |= {f"{name}-{seed}{end}": (place, command) for end, command in made.items()}
    if arguments.verb == "study":
        jobs[f"{name}-calibration"] = 0, _calibration(arguments, name)
        if arguments.documents is not None and name not in HYBRIDS:
            documents = ["--documents", str(arguments.documents), "--questions", "1000"]
            jobs[f"{name}-documents"] = 0, _studied(arguments, name, "documents", documents)
    return jobs


def _directory(arguments: argparse.Namespace, name: str) -> Path:
    models: Path = arguments.models
    return models / f"{name}-V14"


def _upgrade(arguments: argparse.Namespace, crew: Crew, name: str) -> bool:
    directory = _directory(arguments, name)
    if directory.exists():
        return True
    # Without kernels of their own, linear attention and Mamba are faster on a CPU.
    options = ["--device", "cpu" if name in HYBRIDS else arguments.device]
    checkpoint: Path = arguments.models / name
    if name in HYBRIDS:
        checkpoint = next(path for path in MODELS if path.name == name)
        texts = arguments.models / f"{name}.json"
        if not crew.run(f"calibration-{name}", ["experiments.tiny_hybrid.calibration", str(texts)]):
            return False
        options += ["--calibration", str(texts), "--link", "copy"]
    return crew.run(f"upgrade-{name}", ["v14", "upgrade", str(checkpoint), str(directory), *options])


def _rows(arguments: argparse.Namespace, name: str, seed: int) -> dict[str, list[str]]:
    """The benchmark of one model and seed, by name of the process: groups of rows each by itself, and with the first
    seed MuSiQue, which no seed changes."""
    own = str(_directory(arguments, name))
    if name in HYBRIDS:
        options = ["--upgraded-hybrids", own, "--questions", str(arguments.hybrid_questions)]
        options += ["--events", str(arguments.hybrid_events)]
        options += ["--rows", *arguments.hybrid_rows] if arguments.hybrid_rows else []
        return {"": _bench(arguments, f"{name}-{seed}", seed, options)}
    model = ["--models", own, "--device", arguments.device]
    of_rows = [*model, "--questions", str(arguments.questions), "--events", str(arguments.events)]
    groups = {f"-{n}": [*of_rows, "--rows", *rows] for n, rows in enumerate(arguments.rows)} or {"": of_rows}
    if seed == arguments.seeds[0] and arguments.musique_questions:
        real = ["--musique", str(arguments.musique), "--musique-questions", str(arguments.musique_questions)]
        groups["-musique"] = [*model, "--events", "100", *real, "--rows"]
    return {end: _bench(arguments, f"{name}-{seed}{end}", seed, options) for end, options in groups.items()}


def _bench(arguments: argparse.Namespace, what: str, seed: int, options: Sequence[str]) -> list[str]:
    out = str(arguments.models / f"logs/{what}.json")
    fixed = ["--seed", str(seed), "--hybrids", "--no-few", "--growth-gb", "0", "--out", out]
    return ["benchmarks.recall", *fixed, *options]


def _study(arguments: argparse.Namespace, name: str, seed: int) -> dict[str, list[str]]:
    options = ["--seed", str(seed), "--questions", str(arguments.questions), "--events", str(arguments.events)]
    options += ["--hybrid"] if name in HYBRIDS else []
    return {"": _studied(arguments, name, str(seed), options)}


def _calibration(arguments: argparse.Namespace, name: str) -> list[str]:
    texts = [str(arguments.models / f"{name}.json")] if name in HYBRIDS else []
    return _studied(arguments, name, "calibration", ["--calibration", *texts])


def _studied(arguments: argparse.Namespace, name: str, what: str, options: Sequence[str]) -> list[str]:
    device = "cpu" if name in HYBRIDS else arguments.device
    out = str(arguments.models / f"logs/{name}-{what}.npz")
    own = str(_directory(arguments, name))
    return ["benchmarks.recall.study", own, "--device", device, *options, "--out", out]


def _keep(arguments: argparse.Namespace, crew: Crew) -> None:
    """Put what is there so far into OUT."""
    found: list[dict[str, Any]] = []
    for file in sorted(crew.room.glob("*.json")):
        try:
            found.append(json.loads(file.read_text()))
        except json.JSONDecodeError:  # it is being written
            continue
    if arguments.verb == "run":
        (arguments.out / "recall.json").write_text(json.dumps({"seeds": found, "seconds": crew.times}, indent=1))
        replies = b"".join(file.read_bytes() for file in sorted(crew.room.glob("*.replies.jsonl")))
        (arguments.out / "replies.jsonl.xz").write_bytes(lzma.compress(replies, preset=1))
    else:
        for name in {file.stem.rpartition("-")[0] for file in crew.room.glob("*.npz")}:
            with tarfile.open(arguments.out / f"{name}.tar", "w") as archive:
                for file in sorted(crew.room.glob(f"{name}-*.npz")):
                    archive.add(file, file.name)
    profiles = {
        path.name: {
            "options": json.loads((path / "config.json").read_text())["v14"],
            **{name: json.loads((path / "v14/profile.json").read_text())[name] for name in ("measured", "doubt")},
        }
        for path in sorted(arguments.models.glob("*-V14"))
    }
    (arguments.out / "profiles.json").write_text(json.dumps(profiles, indent=1))
    logs = [f"== {file.stem}\n{file.read_text(errors='replace')[-4000:]}\n" for file in sorted(crew.room.glob("*.log"))]
    (arguments.out / "logs.txt").write_text("".join(logs))


def _short(arguments: argparse.Namespace, crew: Crew) -> str:
    """For each model and shown row, every system's mean over the seeds."""
    values: dict[tuple[str, str, str], list[float]] = {}
    numbers: dict[tuple[str, str, str], int] = {}
    for file in sorted(crew.room.glob("*.json")):
        for row in json.loads(file.read_text())["rows"]:
            key = row["model"], row["row"], row["system"]
            values.setdefault(key, []).append(row["value"])
            numbers[key] = numbers.get(key, 0) + row["of"]
    means = [
        table.Row(model=model, row=row, system=system, value=sum(each) / len(each), of=of)
        for (model, row, system), each in values.items()
        for of in [numbers[model, row, system]]
        if row in SHOWN
    ]
    return table.show(table.judged(means))


if __name__ == "__main__":
    main()
