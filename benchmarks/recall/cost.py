"""What one request's recall costs as the store grows: seconds of `Session.plan` (votes and planning), the exponent, and
a plot.

    python -m benchmarks.recall.cost DIRECTORY [--sizes 100 1000 ...] [--max-gb 8] [--device cuda] [--plot FILE]

The texts are those of the benchmark's world, told and tokenized; what the events' keys are does not change what a vote
costs, so they are the keys of a few hundred events that the model reads, dealt out anew. Questions are the benchmark's.
On a CPU they are processor seconds: the machine may be shared.
"""

import argparse
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.recall.chats import Case, Chat, World, weave
from benchmarks.recall.english.world import English
from benchmarks.recall.hybrid_world import HybridWorld
from benchmarks.recall.reading import Reader
from benchmarks.recall.table import MEMORY, Row
from v14.types import Event, Trace

NAMESPACE = "growing"
GIB = 2**30
REPEATS = 5
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
READ_CHATS = 200
"""Chats that are read for their keys."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Seconds of one recall (median) by number of events; seconds are about n ** exponent."""

    model: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """Slope of the least-squares line through the logarithms."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.seconds), 1)[0])


def grow(
    model: str,
    reader: Reader,
    read: Sequence[Chat],
    told: Iterable[Chat],
    cases: Sequence[Case],
    sizes: Sequence[int],
    max_gb: float,
) -> Growth:
    """Fill a namespace step by step with what is `told`, with keys of what is `read`, and time the plans of the cases'
    questions at every size.

    Stops in front of the first size whose index would take more than `max_gb` while it grows.
    """
    keys = [pair[1].keys for some in reader.read(read, reader.memory.session("read")) for pair in some]
    session = reader.memory.session(NAMESPACE)
    events = _events(reader, told, torch.cat(keys, 1))
    asked = []
    for case in cases[:REPEATS]:
        ids = reader.ids((("user", case.question),), generate=True)
        layout = session.layout(ids)
        asked.append((ids, layout, reader.cue(ids, layout.new_start)))
    clock = time.process_time if reader.device == "cpu" else time.perf_counter
    done: list[int] = []
    seconds: list[float] = []
    for size in sizes:
        have = len(reader.memory.store.events(NAMESPACE))
        if have and 3 * reader.memory.space(NAMESPACE).num_bytes * size / have > max_gb * GIB:
            break
        while have < size and (pairs := list(islice(events, size - have))):
            session.keep(pairs)
            have = len(reader.memory.store.events(NAMESPACE))
        if have < size:
            break
        cue = asked[0]
        session.plan(cue[2], cue[0], cue[1])  # the null shares of new events are computed once, not by every request
        spent = []
        for ids, layout, found in asked:
            begin = clock()
            session.plan(found, ids, layout)
            spent.append(clock() - begin)
        done.append(size)
        seconds.append(median(spent))
    return Growth(model=model, sizes=tuple(done), seconds=tuple(seconds))


def rows(growth: Growth) -> list[Row]:
    """The table's rows about cost."""
    table = [
        Row(model=growth.model, row=f"seconds of a recall among {size:,}", system=MEMORY, value=spent, of=REPEATS)
        for size, spent in zip(growth.sizes, growth.seconds, strict=True)
    ]
    if len(growth.sizes) > 1:
        exponent = Row(
            model=growth.model,
            row="exponent of a recall's cost",
            system=MEMORY,
            value=growth.exponent,
            of=len(growth.sizes),
        )
        table.append(exponent)
    return table


def plot(growths: Sequence[Growth], file: Path) -> None:
    """A log-log plot of all models; the file's ending says the format."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for growth in growths:
        label = f"{growth.model}: n^{growth.exponent:.2f}" if len(growth.sizes) > 1 else growth.model
        axes.plot(growth.sizes, growth.seconds, marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="events in the namespace", ylabel="seconds of one request's recall")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _events(reader: Reader, told: Iterable[Chat], keys: torch.Tensor) -> Iterator[tuple[Event, Trace]]:
    """Events of chats, each said a second after the other, with a stretch of `keys` `[L, T, H, D]`."""
    draw = random.Random(NAMESPACE)
    for number, chat in enumerate(told):
        chat = Chat(turns=chat.turns, said_at=float(number))
        for cut in reader.cuts(chat, reader.ids(chat.turns), NAMESPACE):
            begin = draw.randrange(keys.shape[1] - cut.event.num_tokens)
            own = keys[:, begin : begin + cut.event.num_tokens]
            yield cut.event, Trace(keys=own, values=own)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--hybrid", action="store_true", help="a small hybrid, which reads a language of its own")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--max-gb", type=float, default=8.0, help="of the index")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--plot", type=Path, default=Path("build/recall-cost.svg"))
    arguments = parser.parse_args()
    reader = Reader(arguments.directory, arguments.device)
    world: World = HybridWorld(arguments.seed) if arguments.hybrid else English(arguments.seed)
    cases = world.cases("single fact", REPEATS)
    others = world.distractors()
    read = [*islice(others, READ_CHATS)]
    first = weave(random.Random(NAMESPACE), cases, read).chats
    found = grow(
        arguments.directory.name, reader, read, chain(first, others), cases, sorted(arguments.sizes), arguments.max_gb
    )
    for size, spent in zip(found.sizes, found.seconds, strict=True):
        print(f"{size:>9,} events: {1e3 * spent:8.1f} ms")
    print(f"about n^{found.exponent:.2f}")
    plot([found], arguments.plot)
    print(arguments.plot)


if __name__ == "__main__":
    main()
