"""Every figure of the memory on a GPU, in one table.

    python -m benchmarks.gpu --out DIR [--parts first_token votes …] [--model V14-DIRECTORY …] [--commit HASH]

Each part is a program of its own in this folder. What measures times runs alone on its device, one part after the
other; what does not runs beside it where there is a second device, and behind it otherwise. Writes
`DIR/<date>-<gpu>-<commit>.json` with the machine, the versions and all rows; exits with 2 without a GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.servers import machine

TIMED = ("first_token", "votes")
"""Parts that measure times, in the order they run."""

FIGURE_KEYS = ("figure", "plain", "memory", "ratio", "bound", "holds")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A program: its name, its command, and how many devices it takes."""

    name: str
    command: tuple[str, ...]
    devices: int = 1


def parts_of(out: Path, models: Sequence[Path]) -> list[Part]:
    """All parts; those that need a real model run for each that is given."""

    def module(name: str, *arguments: str) -> tuple[str, ...]:
        return (sys.executable, "-W", "ignore", "-m", f"benchmarks.gpu.{name}", "--out", str(out), *arguments)

    parts = [
        Part(name="first_token", command=module("first_token")),
        Part(name="votes", command=module("votes")),
        Part(name="soak", command=module("soak")),
        Part(name="exactness", command=module("exactness", "--modes", "reread")),
        Part(name="drafts", command=module("speculative")),
        Part(name="decoding", command=module("decoding")),
    ]
    for model in models:
        report = out / f"check-{model.name}.json"
        check = (sys.executable, "-W", "ignore", "-m", "v14", "check", str(model), "--json", str(report))
        parts.append(Part(name=f"drafts-{model.name}", command=module("speculative", "--model", str(model))))
        parts.append(Part(name=f"check-{model.name}", command=check))
        if torch.cuda.device_count() > 1 and _splits(model):
            ranks = (sys.executable, "-W", "ignore", "-m", "benchmarks.gpu.ranks", str(model), "--tp-size", "2")
            parts.append(Part(name=f"ranks-{model.name}", command=ranks, devices=2))
    return parts


def _splits(model: Path) -> bool:
    """Whether SGLang can give each of two ranks its heads."""
    config = json.loads((model / "config.json").read_text())
    return int(config.get("text_config", config)["num_attention_heads"]) % 2 == 0


def run(part: Part, out: Path, devices: Sequence[int]) -> tuple[str, int, float]:
    """Name, exit status and seconds of a part; what it says goes to `out/<name>.txt`."""
    begun = time.monotonic()
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(map(str, devices)), "PYTHONUNBUFFERED": "1"}
    with (out / f"{part.name}.txt").open("w") as sink:
        status = subprocess.run(part.command, stdout=sink, stderr=subprocess.STDOUT, env=environment).returncode
    seconds = time.monotonic() - begun
    print(f"{part.name}: exit {status} after {seconds:.0f} s", flush=True)
    return part.name, status, seconds


def rows_of(out: Path) -> list[dict[str, Any]]:
    """The rows of all parts' files."""
    rows: list[dict[str, Any]] = []
    for file in sorted(out.glob("*.json")):
        data = json.loads(file.read_text())
        found = data.get("rows") if isinstance(data, dict) else None
        for row in found if isinstance(found, list) else ():
            if "figure" in row:
                value = row.get("memory", row.get("value"))
                rows.append({**{key: row.get(key) for key in FIGURE_KEYS}, "memory": value, "part": file.stem})
    return rows


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", nargs="*", help="their names, without the model's; all if left out")
    parser.add_argument("--model", type=Path, nargs="*", default=[], help="V14 directories of real models")
    parser.add_argument("--commit", default="", help="asked of git if left out")
    parser.add_argument("--beside", type=int, default=3, help="parts that measure no times, at once")
    parser.add_argument("--collect", action="store_true", help="run nothing, only put together what is in DIR/parts")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device here: nothing was measured", file=sys.stderr)
        return 2
    commit = arguments.commit or _commit()
    work = arguments.out / "parts"
    work.mkdir(parents=True, exist_ok=True)
    parts = [
        part
        for part in parts_of(work, arguments.model)
        if not arguments.collect and (not arguments.parts or part.name.split("-")[0] in arguments.parts)
    ]
    timed = [part for part in parts if part.name in TIMED]
    others = [part for part in parts if part.name not in TIMED and part.devices == 1]
    wide = [part for part in parts if part.devices > 1]
    apart = torch.cuda.device_count() > 1
    with ThreadPoolExecutor(arguments.beside) as pool:
        beside = [pool.submit(run, part, work, [1]) for part in others] if apart else []
        done = [run(part, work, [0]) for part in timed]
        beside += [] if apart else [pool.submit(run, part, work, [0]) for part in others]
        # Those that take several devices measure no times either.
        done += [run(part, work, range(part.devices)) for part in wide]
        done += [future.result() for future in beside]
    rows = rows_of(work)
    name = str(machine()["machine"]).lower().replace("nvidia ", "").replace(" ", "-")
    result = {
        **machine(),
        "devices": torch.cuda.device_count(),
        "commit": commit,
        "parts": [{"part": part, "status": status, "seconds": round(seconds)} for part, status, seconds in done],
        "rows": rows,
    }
    path = arguments.out / f"{datetime.now(UTC):%Y-%m-%d}-{name}-{commit}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    for row in rows:
        mark = {True: "holds", False: "DOES NOT HOLD", None: ""}[row["holds"]]
        figures = [f"{row[key]:>11.4f}" if isinstance(row[key], (int, float)) else " " * 11 for key in FIGURE_KEYS[1:4]]
        print(f"{row['part']:<24}{row['figure'][:70]:<72}{''.join(figures)}  bound {row['bound']} {mark}")
    print(path)
    return 0 if all(status == 0 for _, status, _ in done) else 1


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
