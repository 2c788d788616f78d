"""Draws what memory costs from the table of `make bench-gpu`.

    python docs/_site/plot.py docs/pictures/cost.svg benchmarks/results/DATE-GPU-COMMIT.json

One line for each figure of first token and decoding: a dot for memory on divided by memory off, a tick for the bound.
Standard library only.
"""

import html
import json
import re
import sys
from pathlib import Path
from typing import Any

LEFT, WIDTH, RIGHT, ROW, TOP, HIGHEST = 390, 260, 160, 30, 44, 2.0
STYLE = (Path(__file__).parents[1] / "pictures" / "memory.svg").read_text().split("</style>")[0].split("<style>")[1]
SHOWN = re.compile(r"(first token, .* recalled, .*-token prompt|decode with .*, batch \d+), (s|tokens/s)$")


def plot(result: dict[str, Any]) -> str:
    """An SVG picture in the style of the others."""
    rows = [(match, row) for row in result["rows"] if (match := SHOWN.match(row["figure"]))]
    bottom = TOP + ROW * len(rows)
    parts = [f'<text class="head" x="14" y="24">memory on / memory off, {html.escape(result["machine"])}</text>']
    for step in range(5):
        ratio = HIGHEST * step / 4
        parts.append(f'<path class="way" opacity=".35" d="M{_x(ratio)},{TOP - 8} V{bottom}"/>')
        parts.append(f'<text class="small mid" x="{_x(ratio)}" y="{bottom + 16}">{ratio:g}</text>')
    parts.append(f'<path class="way m" d="M{_x(1)},{TOP - 8} V{bottom}"/>')
    for number, (match, row) in enumerate(rows):
        parts += _line(match[1], match[2], row, TOP + ROW * number + ROW // 2)
    legend = "dot: measured &#160; dashes: the bound (first token at most, decoding at least)"
    parts.append(f'<text class="small" x="14" y="{bottom + 40}">{legend}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="v14" viewBox="0 0 {LEFT + WIDTH + RIGHT} {bottom + 52}" '
        f'role="img" aria-label="Time to the first token and decode speed, memory on against memory off">\n'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _line(figure: str, unit: str, row: dict[str, Any], y: int) -> list[str]:
    values = (row["plain"], row["memory"])
    told = " → ".join(f"{value * 1e3:.0f}" if unit == "s" else f"{value:.1f}" for value in values)
    return [
        f'<text x="14" y="{y + 5}">{html.escape(figure)}</text>',
        f'<path class="floor" d="M{_x(row["bound"])},{y - 11} V{y + 11}"/>',
        f'<circle class="mem" cx="{_x(row["memory"] / row["plain"])}" cy="{y}" r="6"/>',
        f'<text class="small" x="{LEFT + WIDTH + 14}" y="{y + 5}">{told} {"ms" if unit == "s" else "tokens/s"}</text>',
    ]


def _x(ratio: float) -> float:
    return round(LEFT + WIDTH * min(ratio, HIGHEST) / HIGHEST, 1)


if __name__ == "__main__":
    target, source = sys.argv[1:]
    Path(target).write_text(plot(json.loads(Path(source).read_text())))
