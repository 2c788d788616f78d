"""Shares of many events at once: how long the Triton kernel takes.

    python -m benchmarks.votes_kernel [--out FILE] [--events 10000] [--queries 24 64] [--tiny]

Random keys in bfloat16 and in int8 with a scale for each token and row, about 60 tokens an event, the voters
of three models. `read` is the share of the device's memory bandwidth that reading the keys once would take in that
time, `computed` the products in TFLOP/s, padding left out. `--tiny` runs everything once at tiny sizes, also in
Triton's interpreter.
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


Given = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor, Asked]
"""What `event_shares` takes."""


def given_of(shape: Shape, form: str, num_events: int, num_queries: int, device: str) -> Given:
    """Random keys and queries; events of 20 to 100 tokens back to back."""
    torch.manual_seed(0)
    lengths = torch.randint(20, 101, (num_events,), dtype=torch.int32)
    starts = lengths.long().cumsum(0) - lengths
    size = shape.rows, int(lengths.sum()), shape.dim
    if form == "int8":
        keys = torch.randint(-127, 128, size, dtype=torch.int8, device=device)
        scales = torch.full(size[:2], 0.02, dtype=torch.float16, device=device)
    else:
        keys, scales = torch.randn(size, device=device, dtype=torch.bfloat16), None
    asked = Asked(
        queries=torch.randn(shape.voters, num_queries, shape.dim, device=device) * shape.dim**-0.5,
        context=4 + torch.randn(shape.voters, num_queries, device=device),
        rows=(torch.arange(shape.voters, dtype=torch.int32) * shape.rows // shape.voters).to(device),
        inverse=torch.tensor([1 / num_queries], device=device),
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
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    events, queries = ([20], [5]) if arguments.tiny else (arguments.events, arguments.queries)
    # Triton's interpreter multiplies no bfloat16.
    forms = ["int8"] if device == "cpu" else ["bfloat16", "int8"]
    rows = []
    for (name, shape), form, num_events, num_queries in itertools.product(SHAPES.items(), forms, events, queries):
        given = given_of(shape, form, num_events, num_queries, device)
        exact = naive.event_shares(*given[:2], given[2][:8], given[3][:8], given[4])
        run = partial(triton.event_shares, *given)
        error = float((run()[:, :8] - exact).abs().max())
        time_ms = milliseconds(run, device, 1 if arguments.tiny else 20)
        keys, total = given[0], given[0].shape[1]
        row = {
            "shape": name, **asdict(shape), "form": form, "events": num_events, "queries": num_queries, "ms": time_ms,
            "read": keys.numel() * keys.element_size() / MEMORY_TB_S / 1e12 / (time_ms * 1e-3),
            "computed": 2 * total * shape.voters * shape.dim * num_queries / time_ms / 1e9, "error": error,
        }  # fmt: skip
        rows.append(row)
        print(" ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()), flush=True)
        del given, keys, run
    if arguments.out:
        arguments.out.write_text(json.dumps({**machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
