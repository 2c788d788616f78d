"""Shares of many events at once: time of the Triton kernel at several sizes, and which tile sizes are fastest.

    python -m benchmarks.votes_kernel [--out FILE] [--events 10000] [--queries 24 64] [--sweep] [--tiny]

Random keys in int8 with a scale for each token and row, about 60 tokens an event, the voters of three models. `read` is
the share of the device's memory bandwidth that reading the keys once would take in that time, `computed` the products
in TFLOP/s, padding left out. `--tiny` runs everything once at tiny sizes, also in Triton's interpreter.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from triton.runtime.errors import OutOfResources

from benchmarks.gpu.servers import machine
from v14.kernels.votes import Asked, naive, triton

MEMORY_TB_S = 4.8
"""Memory bandwidth of an H200."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Voters of a model: `rows` of keys, `voters` that read them, `dim` of a head."""

    rows: int
    voters: int
    dim: int


SHAPES = {
    "smollm2": Shape(rows=34, voters=48, dim=64),
    "qwen2_5": Shape(rows=11, voters=16, dim=64),
    "qwen3_5_27b": Shape(rows=16, voters=16, dim=256),
}


def arguments_of(
    shape: Shape, num_events: int, num_queries: int, device: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Asked]:
    """What `event_shares` takes: events of 20 to 100 tokens back to back."""
    torch.manual_seed(0)
    lengths = torch.randint(20, 101, (num_events,), dtype=torch.int32)
    starts = lengths.long().cumsum(0) - lengths
    total = int(lengths.sum())
    keys = torch.randint(-127, 128, (shape.rows, total, shape.dim), dtype=torch.int8, device=device)
    scales = torch.full((shape.rows, total), 0.02, dtype=torch.float16, device=device)
    asked = Asked(
        queries=torch.randn(shape.voters, num_queries, shape.dim, device=device) * shape.dim**-0.5,
        context=4 + torch.randn(shape.voters, num_queries, device=device),
        rows=(torch.arange(shape.voters, dtype=torch.int32) * shape.rows // shape.voters).to(device),
    )
    return keys, scales, starts.to(device), lengths.to(device), asked


def milliseconds(run: Callable[[], object], device: str, repeats: int = 20) -> float:
    """Median time of the device."""
    run()
    times = []
    for _ in range(repeats):
        if device == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            run()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        else:
            started = time.perf_counter()
            run()
            times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--events", type=int, nargs="+", default=[10_000])
    parser.add_argument("--queries", type=int, nargs="+", default=[24, 64])
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    events, queries = ([20], [5]) if given.tiny else (given.events, given.queries)
    tiles = [(64, 16, 4, 2)]
    if given.sweep:
        tiles = list(itertools.product((32, 64, 128), (16,), (4, 8), (1, 3)))
    rows = []
    for (name, shape), num_events, num_queries in itertools.product(SHAPES.items(), events, queries):
        arguments = arguments_of(shape, num_events, num_queries, device)
        total, best = arguments[0].shape[1], None
        exact = naive.event_shares(*arguments[:2], arguments[2][:8], arguments[3][:8], arguments[4])
        for tokens, run, warps, stages in tiles[:2] if given.tiny else tiles:
            options = {"tokens": tokens, "events": run, "num_warps": warps, "num_stages": stages}
            run_once = partial(triton.event_shares, *arguments, **options)
            try:
                error = float((run_once()[:, :8] - exact).abs().max())
            except OutOfResources:
                continue
            time_ms = milliseconds(run_once, device, 1 if given.tiny else 7 if given.sweep else 20)
            flops = 2 * total * shape.voters * shape.dim * num_queries
            row = {
                "shape": name, **asdict(shape), "events": num_events, "queries": num_queries, **options, "ms": time_ms,
                "read": arguments[0].numel() / MEMORY_TB_S / 1e12 / (time_ms * 1e-3),
                "computed": flops / time_ms / 1e9, "error": error,
            }  # fmt: skip
            rows.append(row)
            if best is None or time_ms < best["ms"]:
                best = row
        assert best is not None
        print(" ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in best.items()), flush=True)
        del arguments, run_once
    if given.out:
        given.out.write_text(json.dumps({**machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
