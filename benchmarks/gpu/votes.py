"""The vote over a large namespace: time, bytes of the GPU, and whether the best five are those of an exact scan.

    python -m benchmarks.gpu.votes --out OUT [--model V14-DIRECTORY [--told FILE]] [--shape qwen3_5_27b ...]
        [--events 10000 100000 1000000] [--seconds 170] [--quick]

`--model` reads real chats with a real model: statements of the recall benchmark's English world (`--told` is a file of
`benchmarks.gpu.statements`; without it they are written first), joined to events of about 60 tokens as they follow one
another, and questions about some of them. `--shape` takes random keys of that model's sizes, for time and bytes alone.

`vote` is what a plan waits for: from a cue on the CPU to the best 64 votes as Python objects, all copies included, by
the clock; `on the GPU` what the device itself took. Both over `REPEATS` votes with the questions in turn. `agreement`
is the share of the best five of an exact scan (fp32, all voters, keys as they were) that are among the index's best
five. On a machine without a GPU everything runs on the CPU, to see that it does. Sizes that would begin after
`--seconds`, or that there are not enough statements for, are left out.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import statements
from benchmarks.gpu.servers import machine
from benchmarks.recall.reading import Reader
from benchmarks.votes_kernel import SHAPES
from v14.geometry import AttentionLayer, Geometry
from v14.kernels.votes import Asked, event_shares
from v14.recall.index import Index
from v14.recall.sketch import fit
from v14.recall.voters import Voters
from v14.recall.votes import calibrate, scalings
from v14.recall.weighing import MAX_WEIGHED
from v14.types import Cue

EVENT_TOKENS = 60
SEED = 15
"""Of the chats; reports of recall use 0, 1 and 2."""

MOST_REAL = 100_000
"""Of more events no chats are written: it takes minutes."""

REPEATS = 40
TOP = 5

BOUNDS_MS = {10_000: 1.0, 100_000: 2.0, 1_000_000: 5.0}
LEAST_AGREEMENT = 0.98

BATCH_EVENTS = {"cpu": 100, "cuda": 5_000}
"""Random events made and added at once."""

Batches = Iterator[tuple[torch.Tensor, list[int]]]
"""Keys `[U, tokens, D]` fp32 of some events on the device, and the events' lengths."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure; `bound` is None where none was set."""

    figure: str
    value: float
    bound: float | None = None
    holds: bool | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """What is voted on: a model's voters, questions' cues, and its events, as many of them as there are. `real` says
    whether an agreement tells anything."""

    name: str
    geometry: Geometry
    voters: Voters
    cues: Sequence[Cue]
    events: Callable[[int], Batches]
    real: bool


def real(directory: Path, told: statements.Told, device: torch.device) -> Subject:
    """A real model's keys of real chats."""
    reader = Reader(directory, device.type)
    return Subject(
        name=directory.name,
        geometry=reader.profile.geometry,
        voters=reader.profile.voters,
        cues=statements.cues(reader, told),
        events=lambda num: _joined_events(statements.read(reader, told), num),
        real=True,
    )


def random(shape_name: str, num_queries: int, device: torch.device) -> Subject:
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
    # As many layers as there are rows, of one KV head each, without rotation.
    geometry = Geometry(
        num_heads=max(map(rows.count, rows)),
        num_kv_heads=1,
        head_dim=shape.dim,
        layers=tuple(AttentionLayer(index=row, rotary=None, scaling=shape.dim**-0.5) for row in range(shape.rows)),
    )
    voters = Voters(
        heads=tuple((row, rows[:voter].count(row)) for voter, row in enumerate(rows)),
        weights=tuple(1.0 + 1 / (1 + voter) for voter in range(shape.voters)),
        calibration="log-ratio",
        null=cue(),
        sketch=fit(torch.randn(shape.rows, 4 * shape.dim, shape.dim), cues, rows),
    )

    def events(num: int) -> Batches:
        for first in range(0, num, BATCH_EVENTS[device.type]):
            here = min(BATCH_EVENTS[device.type], num - first)
            lengths = torch.randint(20, 101, (here,))
            yield torch.randn(shape.rows, int(lengths.sum()), shape.dim, device=device), lengths.tolist()

    return Subject(name=shape_name, geometry=geometry, voters=voters, cues=cues, events=events, real=False)


def _joined_events(batches: Batches, num: int) -> Batches:
    """The first `num` events of batches whose own events are joined until each has `EVENT_TOKENS`."""
    for keys, lengths in batches:
        if num <= 0:
            return
        joined = _joined(lengths)[:num]
        num -= len(joined)
        if joined:
            yield keys[:, : sum(joined)].contiguous(), joined


def _joined(lengths: Sequence[int]) -> list[int]:
    """Lengths of events joined as they follow one another; the last ones may be too few for an event."""
    joined, length = [], 0
    for own in lengths:
        length += own
        if length >= EVENT_TOKENS:
            joined.append(length)
            length = 0
    return joined


class Exact:
    """Votes in fp32 with all voters, on the device that the keys are on."""

    def __init__(self, subject: Subject, num_cues: int, device: torch.device) -> None:
        voters = subject.voters
        scaling = torch.tensor(scalings(subject.geometry, voters))[:, None, None]
        rows = voters.key_rows(subject.geometry).int()

        def asked(cue: Cue) -> Asked:
            inverse = torch.tensor([1 / cue.queries.shape[1]])
            given = (cue.queries * scaling, cue.context_lse, rows, inverse)
            return Asked(*(each.to(device).contiguous() for each in given))

        self._null, self._cues = asked(voters.null), [asked(cue) for cue in subject.cues[:num_cues]]
        self._weights = torch.tensor(voters.weights, device=device)
        self._calibration = voters.calibration

    def votes(self, keys: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """`[cues, events]`, on the CPU."""
        sizes = torch.tensor(lengths, dtype=torch.int32, device=keys.device)
        starts = sizes.long().cumsum(0) - sizes
        null = event_shares(keys, None, starts, sizes, self._null)
        found = []
        for asked in self._cues:
            share = event_shares(keys, None, starts, sizes, asked)
            found.append(self._weights @ calibrate(share, null, self._calibration))
        return torch.stack(found).cpu()


def fill(subject: Subject, num_events: int, num_cues: int, device: torch.device) -> tuple[Index, list[set[str]]]:
    """An index of so many events, and the exact scan's best for each cue; fewer where there are not so many."""
    index = Index(subject.geometry, subject.voters, form="int8", device=device)
    exact = Exact(subject, num_cues, device) if subject.real else None
    votes: list[torch.Tensor] = []
    for keys, lengths in subject.events(num_events):
        if exact is not None:
            votes.append(exact.votes(keys, lengths))
        _wait(device)
        first = len(index)
        index.add_many([str(first + n) for n in range(len(lengths))], keys, lengths)
        _wait(device)
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


def fits(index_bytes: float, device: torch.device) -> bool:
    """Whether an index of so many bytes has room, with what scanning it takes beside."""
    return device.type == "cpu" or 1.15 * index_bytes + (6 << 30) < torch.cuda.mem_get_info()[0]


def rows_of_subject(
    subject: Subject, sizes: Sequence[int], num_cues: int, repeats: int, device: torch.device, until: float
) -> Iterator[Row]:
    """All sizes of one model that fit and begin in time."""
    voters, dim = subject.voters, subject.geometry.head_dim
    num_rows = len(voters.key_heads(subject.geometry))
    print(f"{subject.name}: {len(voters.heads)} voters on {num_rows} rows of {dim}", flush=True)
    event_bytes = 1.12 * EVENT_TOKENS * num_rows * (dim + 2) + 4 * len(voters.heads)
    for size in sizes:
        if not fits(event_bytes * size, device) or time.monotonic() > until:
            print(f"{size:,} events of about {event_bytes * size / 1e9:.0f} GB: no room or no time", flush=True)
            continue
        begun = time.monotonic()
        index, best = fill(subject, size, num_cues, device)
        filled = time.monotonic() - begun
        if len(index) < size:
            print(f"{size:,} events: there are only {len(index):,}", flush=True)
            continue
        found = measure(index, subject.cues[:num_cues], best, repeats)
        print(f"{size:,} events, filled in {filled:.1f} s: {found}", flush=True)
        yield from rows_of(subject.name, size, found, index.num_bytes)
        del index
        if device.type == "cuda":
            torch.cuda.empty_cache()


def subjects(given: argparse.Namespace, device: torch.device) -> Iterator[Subject]:
    """What the command line names."""
    if given.model is not None:
        if given.told is not None:
            told = statements.Told.load(given.told)
        else:
            most = max((size for size in given.events if size <= MOST_REAL), default=MOST_REAL)
            told = statements.tell(Reader(given.model), SEED, int(1.1 * EVENT_TOKENS * most), REPEATS)
        yield real(given.model, told, device)
    for name in given.shape:
        yield random(name, given.queries, device)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--events", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--model", type=Path, metavar="V14-DIRECTORY")
    parser.add_argument("--told", type=Path, metavar="FILE")
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=["qwen2_5", "qwen3_5_27b"])
    parser.add_argument("--queries", type=int, default=24, help="tokens of a cue, with --shape")
    parser.add_argument("--seconds", type=float, default=170)
    parser.add_argument("--quick", action="store_true", help="few questions and repeats")
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    rows: list[Row] = []
    given.out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = machine()
    print(result["machine"])
    repeats = 5 if given.quick else REPEATS
    for subject in subjects(given, device):
        num_cues = min(4 if given.quick else 20, len(subject.cues))
        for row in rows_of_subject(subject, given.events, num_cues, repeats, device, until):
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
