"""Draws what memory costs from reports of `v14 check --json`.

    python docs/_site/plot.py docs/pictures/cost.svg REPORT.json …

One line for each figure and model, one dot for each report: memory on divided by memory off. Standard library only.
"""

import html
import json
import sys
from pathlib import Path
from typing import Any

FIGURES = (
    ("first token, on / off (lower is better)", "first_token_on", "first_token_off", 0.0, 2.5),
    ("decode speed, on / off (higher is better)", "decode_on", "decode_off", 0.0, 1.25),
)
LEFT, WIDTH, ROW, PANEL = 220, 500, 34, 62
STYLE = (Path(__file__).parents[1] / "pictures" / "memory.svg").read_text().split("</style>")[0].split("<style>")[1]


def plot(reports: list[dict[str, Any]]) -> str:
    """An SVG picture in the style of the others."""
    models = sorted({report["model"] for report in reports})
    panel_height = PANEL + ROW * len(models)
    parts = [panel(figure, models, reports, top=index * panel_height) for index, figure in enumerate(FIGURES)]
    height = panel_height * len(FIGURES) + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="v14" viewBox="0 0 760 {height}" role="img" '
        f'aria-label="Time to the first token and decode speed, memory on against memory off">\n'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def panel(
    figure: tuple[str, str, str, float, float], models: list[str], reports: list[dict[str, Any]], top: int
) -> str:
    """One figure: an axis of ratios with 1 marked, a row of dots for each model."""
    title, on, off, low, high = figure
    bottom = top + 40 + ROW * len(models)

    def x(ratio: float) -> float:
        return round(LEFT + WIDTH * (ratio - low) / (high - low), 1)

    parts = [f'<text class="head" x="14" y="{top + 22}">{html.escape(title)}</text>']
    for step in range(6):
        ratio = low + (high - low) * step / 5
        parts.append(f'<path class="way" opacity=".35" d="M{x(ratio)},{top + 34} V{bottom}"/>')
        parts.append(f'<text class="small mid" x="{x(ratio)}" y="{bottom + 16}">{ratio:g}</text>')
    parts.append(f'<path class="floor" d="M{x(1)},{top + 34} V{bottom}"/>')
    for index, model in enumerate(models):
        y = top + 40 + ROW * index + ROW // 2
        parts.append(f'<text x="14" y="{y + 5}">{html.escape(model)}</text>')
        for report in reports:
            if report["model"] == model:
                rows = {row["name"]: row.get("value") for row in report["rows"]}
                parts.append(f'<circle class="mem" cx="{x(rows[on] / rows[off])}" cy="{y}" r="6"/>')
    return "\n".join(parts)


if __name__ == "__main__":
    target, *sources = sys.argv[1:]
    Path(target).write_text(plot([json.loads(Path(source).read_text()) for source in sources]))
