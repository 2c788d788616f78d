"""Rows of the table, the bounds that they are held against, and how they are shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

SAME_CHAT = "same chat"
IN_CONTEXT = "everything in context"
MEMORY = "memory"
PLACED = "memory, placed"
VOTERS = "voters"
BASELINES = ("BM25", "MiniLM")
RAG = tuple(f"RAG {name}" for name in BASELINES)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure: a share of `of` questions, or what `row` says. `holds` is None where nothing is asked of it."""

    model: str
    row: str
    system: str
    value: float
    of: int
    bound: float | None = None
    holds: bool | None = None


Find = Callable[[str], float | None]
"""The value that another system reached in the same row of the same model."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What is asked of a system in a row: at least, or at most, what `of` makes of the other systems' values."""

    system: str
    at_least: bool
    of: Callable[[Find], float | None]


def _fixed(value: float) -> Callable[[Find], float | None]:
    return lambda find: value


def _of(system: str, share: float = 1.0) -> Callable[[Find], float | None]:
    def bound(find: Find) -> float | None:
        value = find(system)
        # A model that answers nothing in the same chat has no ceiling to be held against.
        return share * value if value else None

    return bound


def _at_least_minilm(find: Find) -> float:
    return max(0.95, find("MiniLM") or 0.0)


def _best(systems: Sequence[str], share: float) -> Callable[[Find], float | None]:
    return lambda find: share * max(find(system) or 0.0 for system in systems)


def _not_above(system: str) -> Callable[[Find], float | None]:
    return lambda find: find(system)


def _answers(share: float) -> Bound:
    return Bound(system=MEMORY, at_least=True, of=_of(SAME_CHAT, share))


BOUNDS = {
    "evidence in the top 5: single fact": Bound(system=MEMORY, at_least=True, of=_at_least_minilm),
    "evidence in the top 5: paraphrase": Bound(system=MEMORY, at_least=True, of=_at_least_minilm),
    "evidence in the plan: two-step": Bound(system=MEMORY, at_least=True, of=_fixed(0.90)),
    "answers: two-step": _answers(0.90),
    "answers: corrected": _answers(0.95),
    "answers: corrected twice": _answers(0.95),
    "answers: old value": _answers(0.95),
    "answers: temporal": _answers(0.90),
    "answers: line in 2k": _answers(0.90),
    "answers: line in 8k": _answers(0.90),
    "answers: line in 32k": _answers(0.90),
    "old value given: corrected": Bound(system=MEMORY, at_least=False, of=_not_above(SAME_CHAT)),
    "old value given: corrected twice": Bound(system=MEMORY, at_least=False, of=_not_above(SAME_CHAT)),
    "recalls anything: absent": Bound(system=MEMORY, at_least=False, of=_fixed(0.05)),
    "recalls anything: general": Bound(system=MEMORY, at_least=False, of=_fixed(0.05)),
    "obeys: instruction": Bound(system=MEMORY, at_least=False, of=_not_above(SAME_CHAT)),
    "MuSiQue: answer in the top 5": Bound(system=MEMORY, at_least=True, of=_best(BASELINES, 1.2)),
    "MuSiQue: answer F1": Bound(system=MEMORY, at_least=True, of=_best(RAG, 1.0)),
}
"""By row: the bounds that the project set itself before anything was measured."""


def judged(rows: Sequence[Row]) -> list[Row]:
    """The rows with their bounds, and whether they hold."""
    values = {(row.model, row.row, row.system): row.value for row in rows}
    return [_judged(row, values) for row in rows]


def _judged(row: Row, values: Mapping[tuple[str, str, str], float]) -> Row:
    bound = BOUNDS.get(row.row)
    if bound is None or bound.system != row.system:
        return row
    wanted = bound.of(lambda system: values.get((row.model, row.row, system)))
    if wanted is None:
        return row
    # Shares of some dozen questions: what differs in the last bit of a product is no difference.
    near = 1e-9
    holds = row.value >= wanted - near if bound.at_least else row.value <= wanted + near
    return replace(row, bound=round(wanted, 4), holds=holds)


def show(rows: Sequence[Row]) -> str:
    """The table as text: a line for each row of a model, with every system's value and the verdict."""
    lines = []
    for model in dict.fromkeys(row.model for row in rows):
        lines += ["", model]
        own = [row for row in rows if row.model == model]
        for name in dict.fromkeys(row.row for row in own):
            cells = [row for row in own if row.row == name]
            values = "  ".join(f"{row.system} {_shown(row.value)}" for row in cells)
            verdicts = "".join(
                f"   [{'holds' if row.holds else 'FAILS'}: {_shown(row.bound)}]"
                for row in cells
                if row.bound is not None
            )
            lines.append(f"  {name:<40} of {cells[0].of:<4} {values}{verdicts}")
    return "\n".join(lines)


def _shown(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 or value == 0 else f"{value:.2e}"
