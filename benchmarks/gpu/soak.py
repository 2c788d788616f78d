"""Eight clients that tell, ask and hang up, for a while, on a pool that is too small for all of them.

    python -m benchmarks.gpu.soak --out DIR [--family llama] [--seconds 600]

Shown are the requests served, tracebacks, whether SGLang's own check of an idle engine found every slot, and the memory
of the server's processes and of the device a sixth into the time and at its end. What is told is stored, so the
processes may grow by what the index takes for it.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import torch

from benchmarks.gpu.checkpoints import FAMILIES, v14_directory
from benchmarks.gpu.servers import machine, server_of
from tests.soak import come_and_go
from v14.types import MAX_EVENT_TOKENS

GROWTH_BOUND = 1.05
INTERVAL_S = 5.0
GIB = 2**30


class Watch(threading.Thread):
    """Samples the memory of this process's children and of the device, `[seconds, process GiB, device GiB]`."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, float, float]] = []
        self.done = threading.Event()

    def run(self) -> None:
        """Until `done` is set."""
        begun = time.monotonic()
        while not self.done.wait(INTERVAL_S):
            used = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    used += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            device = 0
            if torch.cuda.is_available():
                free, total = torch.cuda.mem_get_info()
                device = total - free
            self.samples.append((time.monotonic() - begun, used / GIB, device / GIB))

    def around(self, share: float) -> tuple[float, float]:
        """Medians of the process's and the device's memory around a share of the time."""
        place = int(share * (len(self.samples) - 1))
        part = self.samples[max(0, place - 2) : place + 3]
        return statistics.median(sample[1] for sample in part), statistics.median(sample[2] for sample in part)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--family", default="llama", choices=FAMILIES)
    parser.add_argument("--backend", default="flashinfer", choices=["triton", "flashinfer"])
    parser.add_argument("--seconds", type=float, default=600.0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    watch, num_requests, failure = Watch(), 0, ""
    with tempfile.TemporaryDirectory() as base:
        model_dir = v14_directory(
            arguments.family, Path(base) / "model", recall_max_events=4, engram_rank=MAX_EVENT_TOKENS
        )
        server = server_of(model_dir, Path(base) / "memory", "--max-total-tokens", "6000", backend=arguments.backend)
        with server:
            server.start()
            watch.start()
            try:
                num_requests = come_and_go(server, model_dir, arguments.seconds)
            except AssertionError as error:
                failure = str(error)[:2000]
            watch.done.set()
            watch.join()
            tracebacks = server.tracebacks()
        (arguments.out / f"soak-{arguments.family}.log").write_bytes(server.log.read_bytes()[-500_000:])
    early, late = watch.around(1 / 6), watch.around(1)
    what = f"{machine()['machine']}, {arguments.family}, {arguments.seconds:.0f} s, {num_requests} requests"
    rows: list[dict[str, Any]] = [
        _row("failures and tracebacks of eight clients", None, tracebacks + bool(failure), 0),
        _row("processes' memory, a sixth in / at the end, GiB", early[0], late[0], GROWTH_BOUND),
        _row("device's memory, a sixth in / at the end, GiB", early[1], late[1], GROWTH_BOUND),
    ]
    print(f"\n{what}\n{failure}")
    for row in rows:
        print(json.dumps(row))
    result = {**machine(), "what": what, "rows": rows, "failure": failure, "samples": watch.samples}
    (arguments.out / f"soak-{arguments.family}.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(row["holds"] for row in rows) else 1


def _row(figure: str, plain: float | None, memory: float, bound: float) -> dict[str, Any]:
    ratio = None if not plain else memory / plain
    holds = (memory if ratio is None else ratio) <= bound
    return {"figure": figure, "plain": plain, "memory": memory, "ratio": ratio, "bound": bound, "holds": holds}


if __name__ == "__main__":
    sys.exit(main())
