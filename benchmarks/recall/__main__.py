"""Recall that has to hold up, against BM25, MiniLM, text RAG and everything in context.

    python -m benchmarks.recall [--seed N] [--quick] [--models DIR ...] [--hybrids DIR ...] [--device cuda]

Prints the table and writes `build/recall.json`. `--models` are V14 directories of models that chat in English,
`--hybrids` checkpoints of the small hybrids, which are upgraded in `build/hybrid`. Replies are written behind the
plan's tokens read again (`reread`), whatever the directory's options say.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from benchmarks.recall import cost, table
from benchmarks.recall.chats import World
from benchmarks.recall.english.world import English
from benchmarks.recall.hybrid_world import HybridWorld
from benchmarks.recall.run import FULL, GPU_ROWS, QUICK, measure
from experiments.tiny_hybrid.table import MODELS, upgraded

OUT = Path("build/recall.json")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few questions among a thousand events")
    parser.add_argument("--models", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("--hybrids", type=Path, nargs="*", metavar="DIR", help="by default all; the first if --quick")
    parser.add_argument("--upgraded-hybrids", type=Path, nargs="*", default=[], metavar="DIR", help="V14 directories")
    parser.add_argument("--musique", type=Path, metavar="FILE", help="left out where there is no such file")
    parser.add_argument("--questions", type=int, help="of a row")
    parser.add_argument("--events", type=int, help="in the store, at least")
    parser.add_argument("--rows", nargs="*", help="only these kinds of questions")
    parser.add_argument("--musique-questions", type=int, help="of MuSiQue")
    parser.add_argument("--no-few", action="store_true", help="without the rows where everything fits in the context")
    parser.add_argument("--growth-gb", type=float, help="largest index of the growing store, in gigabytes")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--plot", type=Path, help="file of the plot, by default beside --out")
    arguments = parser.parse_args()
    missing = [
        str(path)
        for path in (*arguments.models, *arguments.upgraded_hybrids)
        if not (path / "v14/profile.json").is_file()
    ]
    if missing:
        parser.error(f"no V14 directory: {', '.join(missing)}; `make demo` or `v14 upgrade` makes one")
    musique = arguments.musique if arguments.musique and arguments.musique.is_file() else None
    if musique is None:
        print(f"no MuSiQue rows: there is no file {arguments.musique}", flush=True)
    torch.manual_seed(arguments.seed)
    given = {name: getattr(arguments, name) for name in ("questions", "events", "rows", "growth_gb")}
    given = {name: value for name, value in given.items() if value is not None}
    size = replace(QUICK if arguments.quick else FULL, **given)
    if arguments.musique_questions is not None:
        size = replace(size, musique=arguments.musique_questions)
    if arguments.no_few:
        size = replace(size, few_questions=0)
    if size.rows is None and arguments.device == "cpu":
        size = replace(size, rows=tuple(row for row in English.rows if row not in GPU_ROWS))
    hybrids = arguments.hybrids if arguments.hybrids is not None else MODELS[:1] if arguments.quick else MODELS
    subjects: list[tuple[str, Path, World]] = [
        *((path.name, path, English(arguments.seed)) for path in arguments.models),
        *((path.name, upgraded(path, arguments.device), HybridWorld(arguments.seed)) for path in hybrids),
        *((path.name, path, HybridWorld(arguments.seed)) for path in arguments.upgraded_hybrids),
    ]
    rows: list[table.Row] = []
    growths: list[cost.Growth] = []
    replies: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as home:
        # Nothing is stored: the model classes open a store when they are loaded.
        os.environ["SGLANG_V14_MEMORY_HOME"] = home
        for name, directory, world in subjects:
            # The small hybrids know nothing of the world outside their chats.
            own = musique if isinstance(world, English) else None
            found = measure(
                name,
                directory,
                world,
                arguments.seed,
                size,
                device=arguments.device,
                musique_file=own,
                say=lambda text: print(text, flush=True),
                keep=lambda own, before=tuple(rows): write(
                    arguments.out, arguments.seed, [*before, *table.judged(own)]
                ),
            )
            rows += table.judged(found.rows)
            growths += [found.growth] if found.growth.sizes else []
            replies += found.replies
            lines = "".join(json.dumps(reply, ensure_ascii=False) + "\n" for reply in replies)
            arguments.out.with_suffix(".replies.jsonl").write_text(lines)
            write(arguments.out, arguments.seed, rows)
    if not growths:
        print("no plot: what recall costs was not measured")
    elif find_spec("matplotlib"):
        cost.plot(growths, arguments.plot or arguments.out.with_suffix(".svg"))
    else:
        print("no plot: matplotlib is not installed")
    print(table.show(rows))


def write(file: Path, seed: int, rows: Sequence[table.Row]) -> None:
    """Write the rows found so far."""
    file.parent.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    data = {"seed": seed, "commit": commit.stdout.strip(), "rows": [asdict(row) for row in rows]}
    file.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
