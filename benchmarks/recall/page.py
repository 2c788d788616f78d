"""The table of a results page: `python -m benchmarks.recall.page build/recall.json` prints it as Markdown."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.recall.table import BASELINES, IN_CONTEXT, MEMORY, PLACED, RAG, SAME_CHAT, VOTERS, Row

COLUMNS = (SAME_CHAT, VOTERS, MEMORY, PLACED, *BASELINES, *RAG, IN_CONTEXT)
"""Systems, in the order of the columns."""


def markdown(rows: Sequence[Row]) -> str:
    """A table for each model: a line for each row, a column for each system that any row has, and the verdict."""
    parts = []
    for model in dict.fromkeys(row.model for row in rows):
        own = [row for row in rows if row.model == model]
        systems = [system for system in COLUMNS if any(row.system == system for row in own)]
        lines = [f"`{model}`", "", _line(["row", "of", *systems, "bound"]), _line(["---"] * (len(systems) + 3))]
        for name in dict.fromkeys(row.row for row in own):
            cells = {row.system: row for row in own if row.row == name}
            values = [f"{cells[system].value:.3g}" if system in cells else "" for system in systems]
            bounds = [
                f"{row.system} {row.bound:.3g}: {_verdict(row)}" for row in cells.values() if row.bound is not None
            ]
            lines.append(_line([name, str(next(iter(cells.values())).of), *values, "; ".join(bounds)]))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _verdict(row: Row) -> str:
    return "holds" if row.holds else "**fails**"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    found = json.loads(parser.parse_args().file.read_text())
    print(markdown([Row(**row) for row in found["rows"]]))


if __name__ == "__main__":
    main()
