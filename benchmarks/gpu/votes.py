"""The vote over a large namespace: time, bytes of the GPU, and whether the best five are those of an exact scan.

    python -m benchmarks.gpu.votes --out OUT [--keys .gpu/keys.safetensors ...] [--shape qwen3_5_27b]
        [--events 10000 100000 1000000] [--seconds 170] [--quick]

`--keys` is a file of `benchmarks.gpu.voter_keys`: real keys and real questions' cues of one model. Its events, joined
to about 60 tokens as they follow one another, are in the index as they are; the others, up to the wanted number, are
made of runs of five tokens of those among them that no question has among its best `ASKED_FOR`, shuffled and with a
tenth of the spread of their row added as noise. `--shape` takes random keys of that model's sizes, for time and bytes
alone.

`vote` is what a plan waits for: from a cue on the CPU to the best 64 votes as Python objects, all copies included, by
the clock; `on the GPU` what the device itself took. Both over `REPEATS` votes with the questions in turn. `agreement`
is the share of the best five of an exact scan (fp32, all voters, keys as they were) that are among the index's best
five. On a machine without a GPU everything runs on the CPU, to see that it does. Sizes that would
begin after `--seconds` are left out.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.servers import machine
from benchmarks.gpu.voter_keys import Keys
from benchmarks.votes_kernel import SHAPES
from v14.kernels.votes import Asked, packed
from v14.recall.index import Index
from v14.recall.sketch import fit
from v14.recall.votes import calibrate
from v14.recall.weighing import MAX_WEIGHED
from v14.types import Cue

EVENT_TOKENS = 60
ASKED_FOR = 10
REPEATS = 40
TOP = 5

BOUNDS_MS = {10_000: 1.0, 100_000: 2.0, 1_000_000: 5.0}
LEAST_AGREEMENT = 0.98

BATCH_TOKENS = {"cpu": 6_000, "cuda": 300_000}
"""Tokens made, added and scanned exactly at once."""

RUN_TOKENS = 5
NOISE = 0.1


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure; `bound` is None where none was set."""

    figure: str
    value: float
    bound: float | None = None
    holds: bool | None = None


class World:
    """Events by the batch, `[U, tokens, D]` fp32 on `device` with their lengths, and cues of questions."""

    def __init__(self, keys: Keys, device: torch.device, *, real: bool) -> None:
        self.keys, self.device, self.real = keys, device, real
        self.geometry, self.voters = keys.voters()
        self.lengths = _joined(keys.lengths.tolist()) if real else []
        self._random = torch.Generator(device=device).manual_seed(60)
        self._spread = keys.keys.float().std(1, keepdim=True).to(device) if real else None
        self._others = torch.ones(sum(self.lengths), dtype=torch.bool)

    def pass_over(self, best: Sequence[int]) -> None:
        """Make no other events of these."""
        ends = torch.tensor(self.lengths).cumsum(0).tolist()
        for event in best:
            self._others[ends[event] - self.lengths[event] : ends[event]] = False

    def first(self) -> tuple[torch.Tensor, list[int]]:
        """The real events."""
        return self.keys.keys[:, : sum(self.lengths)].to(self.device).float(), self.lengths

    def batches(self, num_events: int) -> Iterator[tuple[torch.Tensor, list[int]]]:
        """Made events."""
        per_batch = BATCH_TOKENS[self.device.type] // EVENT_TOKENS
        for start in range(0, num_events, per_batch):
            num = min(per_batch, num_events - start)
            lengths = torch.randint(4, 21, (num,), generator=torch.Generator().manual_seed(start)) * RUN_TOKENS
            yield self._made(int(lengths.sum())), lengths.tolist()

    def _made(self, num_tokens: int) -> torch.Tensor:
        if self._spread is None:
            shape = (self.keys.keys.shape[0], num_tokens, self.keys.keys.shape[2])
            return torch.randn(shape, generator=self._random, device=self.device)
        usable = self._others.nonzero()[:, 0].to(self.device)
        runs = torch.randint(0, len(usable) - RUN_TOKENS, (-(-num_tokens // RUN_TOKENS),), generator=self._random,
                             device=self.device)  # fmt: skip
        places = usable[(runs[:, None] + torch.arange(RUN_TOKENS, device=self.device)).flatten()[:num_tokens]]
        made = self._pool()[:, places].float()
        noise = torch.randn(made.shape, generator=self._random, device=self.device)
        return made + NOISE * self._spread * noise

    def _pool(self) -> torch.Tensor:
        if self.keys.keys.device != self.device:
            self.keys = Keys(**{**vars(self.keys), "keys": self.keys.keys.to(self.device)})
        return self.keys.keys


def _joined(lengths: list[int]) -> list[int]:
    """Lengths of events joined, as they follow one another, until each has `EVENT_TOKENS`."""
    joined, length = [], 0
    for own in lengths:
        length += own
        if length >= EVENT_TOKENS:
            joined.append(min(length, 128))
            length = 0
    return joined


class Exact:
    """Votes in fp32 with all voters, on the device that the keys are on."""

    def __init__(self, world: World) -> None:
        voters, keys = world.voters, world.keys
        scaling = torch.tensor(keys.scaling)[:, None, None]
        rows = torch.tensor(keys.rows, dtype=torch.int32)

        def asked(cue: Cue) -> Asked:
            return Asked(*(t.to(world.device) for t in (cue.queries * scaling, cue.context_lse, rows)))

        self._null, self._cues = asked(keys.null), [asked(cue) for cue in keys.cues]
        self._weights = torch.tensor(voters.weights, device=world.device)
        self._calibration = voters.calibration

    def votes(self, keys: torch.Tensor, lengths: Sequence[int], num_cues: int) -> torch.Tensor:
        """`[cues, events]`, on the CPU."""
        sizes = torch.tensor(lengths, dtype=torch.int32, device=keys.device)
        starts = sizes.long().cumsum(0) - sizes
        null = packed.event_shares(keys, None, starts, sizes, self._null)
        found = []
        for asked in self._cues[:num_cues]:
            share = packed.event_shares(keys, None, starts, sizes, asked)
            found.append(self._weights @ calibrate(share, null, self._calibration))
        return torch.stack(found).cpu()


def fill(world: World, exact: Exact | None, num_events: int, num_cues: int) -> tuple[Index, list[set[str]]]:
    """An index of so many events, and the exact scan's best for each cue."""
    index = Index(world.geometry, world.voters, form="int8", device=world.device)
    votes: list[torch.Tensor] = []

    def add(keys: torch.Tensor, lengths: list[int]) -> None:
        if exact is not None:
            votes.append(exact.votes(keys, lengths, num_cues))
            _wait(world.device)
        first = len(index)
        index.add_many([str(first + n) for n in range(len(lengths))], keys, lengths)
        _wait(world.device)

    if world.real:
        keys, lengths = world.first()
        ends = torch.tensor(lengths).cumsum(0).tolist()
        kept = min(len(lengths), num_events)
        add(keys[:, : ends[kept - 1]].contiguous(), lengths[:kept])
        num_events -= kept
    for keys, lengths in world.batches(num_events):
        add(keys, lengths)
    if not votes:
        return index, []
    best = torch.cat(votes, 1).topk(TOP).indices.tolist()
    return index, [set(map(str, places)) for places in best]


def measure(index: Index, cues: Sequence[Cue], best: Sequence[set[str]], repeats: int) -> dict[str, float]:
    """Milliseconds by the clock and of the device, and the agreement."""
    on_gpu = index.device.type == "cuda"
    walls, device, agreements = [], [], []
    for number in range(-3, repeats):
        cue = cues[number % len(cues)]
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2)) if on_gpu else (None, None)
        started = time.perf_counter()
        with index.reading():
            if begin is not None:
                begin.record()
            votes = index.votes(cue).best(MAX_WEIGHED)
            if end is not None:
                end.record()
        wall = (time.perf_counter() - started) * 1e3
        if begin is not None and end is not None:
            end.synchronize()
            device.append(begin.elapsed_time(end))
        if number >= 0:
            walls.append(wall)
            if best:
                found = {vote.event_id for vote in votes[:TOP]}
                agreements.append(len(found & best[number % len(cues)]) / len(best[number % len(cues)]))
    result = {"median_ms": statistics.median(walls), "p90_ms": _p90(walls)}
    if device:
        result |= {"device_ms": statistics.median(device[3:]), "device_p90_ms": _p90(device[3:])}
    if agreements:
        result["agreement"] = statistics.mean(agreements)
    return result


def _p90(values: Sequence[float]) -> float:
    return sorted(values)[int(0.9 * (len(values) - 1))]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def rows_of(name: str, num_events: int, found: dict[str, float], num_bytes: int) -> list[Row]:
    """The figures of one size."""
    bound = BOUNDS_MS.get(num_events)
    about = f"{name}, {num_events:,} events"
    holds = None if bound is None else found["median_ms"] <= bound
    rows = [
        Row(figure=f"vote, {about}, ms", value=found["median_ms"], bound=bound, holds=holds),
        Row(figure=f"vote, {about}, 90th percentile, ms", value=found["p90_ms"]),
    ]
    if "device_ms" in found:
        rows.append(Row(figure=f"vote on the GPU, {about}, ms", value=found["device_ms"]))
    rows.append(Row(figure=f"bytes of the index, {about}, GB", value=num_bytes / 1e9))
    if "agreement" in found:
        agreement = found["agreement"]
        holds = agreement >= LEAST_AGREEMENT
        rows.append(
            Row(figure=f"agreement of the best {TOP}, {about}", value=agreement, bound=LEAST_AGREEMENT, holds=holds)
        )
    return rows


def random_keys(shape_name: str, num_queries: int) -> Keys:
    """Random keys and cues of a model's sizes."""
    shape = SHAPES[shape_name]
    torch.manual_seed(0)

    def cue() -> Cue:
        return Cue(
            queries=torch.randn(shape.voters, num_queries, shape.dim),
            context_lse=4 + torch.randn(shape.voters, num_queries),
        )

    rows = [voter * shape.rows // shape.voters for voter in range(shape.voters)]
    cues = [cue() for _ in range(5)]
    return Keys(
        name=shape_name, keys=torch.randn(shape.rows, 1, shape.dim), lengths=torch.tensor([1]),
        cues=cues, null=cue(), rows=rows,
        scaling=[shape.dim**-0.5] * shape.voters, weights=[1.0 + 1 / (1 + v) for v in range(shape.voters)],
        calibration="log-ratio", spread=[], sketch=fit(torch.randn(shape.rows, 4 * shape.dim, shape.dim), cues, rows),
    )  # fmt: skip


def fits(index_bytes: float, device: torch.device) -> bool:
    """Whether an index of so many bytes has room, with what scanning it takes beside."""
    return device.type == "cpu" or 1.15 * index_bytes + (6 << 30) < torch.cuda.mem_get_info()[0]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured of one model."""

    keys: Keys
    real: bool
    sizes: Sequence[int]
    num_cues: int
    repeats: int


def rows_of_model(plan: Plan, device: torch.device, until: float) -> Iterator[Row]:
    """All sizes of one model that fit and begin in time."""
    keys, real = plan.keys, plan.real
    print(f"{keys.name}: {len(keys.rows)} voters, keys {tuple(keys.keys.shape)}", flush=True)
    event_bytes = 1.12 * EVENT_TOKENS * keys.keys.shape[0] * (keys.keys.shape[2] + 2) + 4 * len(keys.rows)
    sizes = list(plan.sizes)
    if real:
        num_real = len(_joined(keys.lengths.tolist()))
        sizes = [num_real, *sizes]
        print(f"{num_real} real events; others of runs of {RUN_TOKENS} tokens of theirs", flush=True)
    for size in sizes:
        if not fits(event_bytes * size, device) or time.monotonic() > until:
            print(f"{size:,} events of about {event_bytes * size / 1e9:.0f} GB: no room or no time", flush=True)
            continue
        world = World(keys, device, real=real)
        exact = Exact(world) if real else None
        # A quarter of the questions at the largest sizes: an exact scan takes longest.
        num_cues = plan.num_cues if size <= 100_000 else max(1, plan.num_cues // 3)
        if exact is not None:
            first, lengths = world.first()
            scanned = exact.votes(first, lengths, num_cues)
            best = scanned.topk(min(ASKED_FOR, len(lengths))).indices.flatten()
            world.pass_over(sorted({*best.tolist()}))
        begun = time.monotonic()
        index, best_of_all = fill(world, exact, size, num_cues)
        filled = time.monotonic() - begun
        found = measure(index, keys.cues[:num_cues], best_of_all, plan.repeats)
        took = time.monotonic() - begun - filled
        print(f"{size:,} events, filled in {filled:.1f} s, measured in {took:.1f} s: {found}", flush=True)
        yield from rows_of(keys.name, size, found, index.num_bytes)
        del index, world
        if device.type == "cuda":
            torch.cuda.empty_cache()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--events", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--keys", type=Path, nargs="*", default=[], metavar="FILE")
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=[])
    parser.add_argument("--queries", type=int, default=24, help="tokens of a cue, with --shape")
    parser.add_argument("--seconds", type=float, default=170)
    parser.add_argument("--quick", action="store_true", help="few questions and repeats")
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    packed.CHUNK_SCORES = {"cpu": 1 << 20, "cuda": 1 << 26}[device.type]
    rows: list[Row] = []
    given.out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = machine()
    print(result["machine"])
    subjects = [(Keys.load(path), True) for path in given.keys]
    subjects += [(random_keys(name, given.queries), False) for name in given.shape]
    for keys, real in subjects:
        plan = Plan(
            keys=keys,
            real=real,
            sizes=given.events,
            num_cues=4 if given.quick else min(20, len(keys.cues)),
            repeats=5 if given.quick else REPEATS,
        )
        for row in rows_of_model(plan, device, until):
            rows.append(row)
            (given.out / "votes.json").write_text(
                json.dumps({**result, "rows": list(map(asdict, rows))}, indent=1) + "\n"
            )
    for row in rows:
        mark = "" if row.holds is None else "holds" if row.holds else "DOES NOT HOLD"
        print(f"{row.figure:<82}{row.value:>10.4f}  {'' if row.bound is None else f'bound {row.bound:g}':<12}{mark}")
    return 0 if all(row.holds is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
