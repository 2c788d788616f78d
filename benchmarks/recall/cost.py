"""What one request's recall costs as the store grows: seconds of `Session.plan`, the exponent, and a plot.

The events are those of the benchmark, read by the model; beyond their number the same keys are stored again under ids
of their own, which costs a recall exactly what other keys of that length would.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.recall.chats import Case
from benchmarks.recall.reading import Reader
from benchmarks.recall.table import MEMORY, Row
from v14.types import Event, Trace

NAMESPACE = "growing"
GIB = 2**30
REPEATS = 5


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
    traced: Sequence[tuple[Event, Trace]],
    cases: Sequence[Case],
    sizes: Sequence[int],
    max_gb: float,
) -> Growth:
    """Fill a namespace step by step and time the plans of the cases' questions at every size.

    Stops in front of the first size whose index would take more than `max_gb` while it grows.
    """
    session = reader.memory.session(NAMESPACE)
    asked = []
    for case in cases[:REPEATS]:
        ids = reader.ids((("user", case.question),), generate=True)
        layout = session.layout(ids)
        asked.append((ids, layout, reader.cue(ids, layout.new_start)))
    done: list[int] = []
    seconds: list[float] = []
    for size in sizes:
        have = len(reader.memory.store.events(NAMESPACE))
        if have and 3 * reader.memory.space(NAMESPACE).num_bytes * size / have > max_gb * GIB:
            break
        for number in range(have, size):
            session.keep([_copy(*traced[number % len(traced)], number)])
        cue = asked[0]
        session.plan(cue[2], cue[0], cue[1])  # the null shares of new events are computed once, not by every request
        spent = []
        for ids, layout, found in asked:
            begin = time.perf_counter()
            session.plan(found, ids, layout)
            spent.append(time.perf_counter() - begin)
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


def _copy(event: Event, trace: Trace, number: int) -> tuple[Event, Trace]:
    """The same trace under an id of its own: ids come from token ids, so one token of a copy is its number."""
    ids = (number, *event.token_ids[1:])
    return replace(event, namespace=NAMESPACE, chat_id=f"copy {number}", token_ids=ids, id=""), trace
