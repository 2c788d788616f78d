"""Shares of many events at once: how long the Triton kernels take, with all events scanned and read one by one.

    python -m benchmarks.votes_kernel [--out FILE] [--events 10000] [--queries 24 64] [--tiny]

Random keys in tiles, in bfloat16 and in int8 with a scale for each token and row, about 60 tokens an event, the voters
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
from typing import NamedTuple

import torch

from benchmarks.gpu.servers import machine
from v14.kernels.votes import TILE, TILE_EVENTS, Asked, Tiles, naive, triton
from v14.recall.layout import Layout

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


class Given(NamedTuple):
    """Events of 20 to 100 tokens in tiles, as the kernels take them."""

    keys: torch.Tensor
    scales: torch.Tensor | None
    tiles: Tiles
    starts: torch.Tensor
    lengths: torch.Tensor
    asked: Asked


def given_of(shape: Shape, form: str, num_events: int, num_queries: int, device: str) -> Given:
    """Random keys and queries."""
    torch.manual_seed(0)
    lengths = torch.randint(20, 101, (num_events,)).tolist()
    layout = Layout(1 << 40, tiled=True)
    starts = [start for length in lengths if (start := layout.lay(length)) is not None]
    owners = torch.full((layout.end,), -1, dtype=torch.int8)
    slots = torch.full((layout.end // TILE, TILE_EVENTS), -1, dtype=torch.int32)
    for event, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        owners[start : start + length] = layout.numbers[start]
        slots[start // TILE, layout.numbers[start]] = event
    size = shape.rows, layout.end, shape.dim
    if form == "int8":
        keys = torch.randint(-127, 128, size, dtype=torch.int8, device=device)
        scales = torch.full(size[:2], 0.02, dtype=torch.float16, device=device)
    else:
        keys, scales = torch.randn(size, device=device, dtype=torch.bfloat16), None
    asked = Asked(
        queries=torch.randn(shape.voters, num_queries, shape.dim, device=device) * shape.dim**-0.5,
        context=4 + torch.randn(shape.voters, num_queries, device=device),
        rows=(torch.arange(shape.voters, dtype=torch.int32) * shape.rows // shape.voters).to(device),
    )
    return Given(
        keys=keys,
        scales=scales,
        tiles=Tiles(owners.to(device), slots.to(device)),
        starts=torch.tensor(starts, device=device),
        lengths=torch.tensor(lengths, dtype=torch.int32, device=device),
        asked=asked,
    )


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
        single = given.keys, given.scales, given.starts, given.lengths, given.asked
        exact = naive.event_shares(*single[:2], given.starts[:8], given.lengths[:8], given.asked)
        for kernel, run in (
            ("scanned", partial(triton.scanned_shares, *single[:2], given.tiles, num_events, given.asked)),
            ("one by one", partial(triton.event_shares, *single)),
        ):
            run = partial(run, split=device == "cuda") if kernel == "scanned" else run
            error = float((run()[:, :8] - exact).abs().max())
            time_ms = milliseconds(run, device, 1 if arguments.tiny else 20)
            total = int(given.lengths.sum())
            num_bytes = total * shape.rows * shape.dim * given.keys.element_size()
            row = {
                "shape": name, **asdict(shape), "form": form, "events": num_events, "queries": num_queries,
                "kernel": kernel, "ms": time_ms, "read": num_bytes / MEMORY_TB_S / 1e12 / (time_ms * 1e-3),
                "computed": 2 * total * shape.voters * shape.dim * num_queries / time_ms / 1e9, "error": error,
            }  # fmt: skip
            rows.append(row)
            print(" ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()), flush=True)
        del given, single, run
    if arguments.out:
        arguments.out.write_text(json.dumps({**machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
