"""A picture of one report: right answers beside the model's own ceiling, and what the memory costs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from v14.check.rows import Count, Report
from v14.check.table import MEANINGS
from v14.errors import CheckError

SUFFIXES = (".svg", ".png")
CEILINGS = {
    "facts": "facts_same_chat",
    "facts_after_chats": "facts_same_chat",
    "facts_after_restart": "facts_same_chat",
    "unrelated": "unrelated_memory_off",
    "unrelated_after_chats": "unrelated_memory_off",
    "unrelated_after_restart": "unrelated_memory_off",
    "corrected_once": "corrected_once_same_chat",
    "corrected_twice": "corrected_twice_same_chat",
    "two_step": "two_step_same_chat",
    "document_fact": "document_fact_same_chat",
    "picture": "picture_same_chat",
}
"""By row the one that says what the model can do without the memory, told in the same chat."""

COSTS = (
    ("first token", "first_token_on", "first_token_off"),
    ("decode speed", "decode_on", "decode_off"),
    ("long prompt, new", "prefix_cold", "prefix_cold_off"),
    ("long prompt, right behind", "prefix_right_behind", "prefix_right_behind_off"),
    ("long prompt, after a pause", "prefix_after_pause", "prefix_after_pause_off"),
)
"""Figures with the memory on and off; drawn as on / off."""


def check_plot(path: Path) -> None:
    """Before anything is asked: raise `CheckError` for what could not be drawn at the end."""
    if path.suffix not in SUFFIXES:
        raise CheckError(f"--plot {path}: give a name that ends in {' or '.join(SUFFIXES)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise CheckError("--plot needs Matplotlib: run `pip install 'sglang-v14[plot]'`") from error


def draw(report: Report, path: Path) -> None:
    """Write the picture. Raises `CheckError` as `check_plot` does."""
    check_plot(path)
    from matplotlib.figure import Figure

    shares = [(row, ceiling(report, row.name)) for row in report.rows if isinstance(row, Count)]
    shares = [(row, top) for row, top in shares if row.name not in CEILINGS.values() and row.of]
    ratios = [(name, value) for name, on, off in COSTS if (value := ratio(report, on, off)) is not None]
    figure = Figure(figsize=(11, 0.32 * len(shares) + 0.45 * len(ratios) + 2.2), layout="constrained")
    right, cost = figure.subplots(2, 1, height_ratios=[max(1, len(shares)), max(1, len(ratios))])
    _bars(right, [MEANINGS.get(row.name, row.name) for row, _ in shares], [row.right / row.of for row, _ in shares])
    for place, (row, top) in enumerate(shares):
        right.text(1.01, place, str(row), va="center")
        if top is not None:
            right.plot([top, top], [place - 0.4, place + 0.4], color="black")
    right.set(xlim=(0, 1.12), title=f"{report.model}, seed {report.seed}: share; black: the model's own ceiling")
    _bars(cost, [name for name, _ in ratios], [value for _, value in ratios])
    cost.axvline(1.0, color="black")
    cost.set_title("memory on / memory off")
    figure.savefig(path)


def ceiling(report: Report, name: str) -> float | None:
    """The share of right answers that the model gives where nothing has to be remembered."""
    other = CEILINGS.get(name)
    return next((r.right / r.of for r in report.rows if isinstance(r, Count) and r.name == other and r.of), None)


def ratio(report: Report, on: str, off: str) -> float | None:
    """One measured row divided by another; None without either."""
    above, below = report.value(on), report.value(off)
    return above / below if above is not None and below else None


def _bars(axes: Any, names: Sequence[str], values: Sequence[float]) -> None:
    axes.barh(range(len(names)), values, color="#3f8f8b")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
