"""`v14 recall`: why a request recalled what it did."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from v14.cli.asking import DEFAULT_URL, KeyFileOption, ServerOption, asking

BAR_CELLS = 30
SHADES = ("default", "on grey23", "on dark_blue", "on blue", "on dodger_blue1")
"""Backgrounds of a word, by its share of the heaviest word's weight."""

app = typer.Typer(help="Why a request recalled what it did.", no_args_is_help=True)


@app.callback()
def recall() -> None:
    """Why a request recalled what it did."""


@app.command()
def explain(
    request_id: Annotated[str, typer.Argument(metavar="ID", help="The id in a reply's metadata.v14.")],
    server: ServerOption = DEFAULT_URL,
    namespace: Annotated[str | None, typer.Option(help="Whose request it was, if not the key's own.")] = None,
    key_file: KeyFileOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of tables.")] = False,
) -> None:
    """A request's words with their weight, the votes, what was recalled, where it stood, and how long it took."""
    told = fetch(server, request_id, namespace, key_file)
    if as_json:
        typer.echo(json.dumps(told, indent=1))
    else:
        Console().print(render(told))


def fetch(server: str, request_id: str, namespace: str | None, key_file: Path | None) -> dict[str, Any]:
    """Ask a server for the record of a request. Raises `ServerError`."""
    return asking(server, namespace, key_file).explain(request_id)


def render(told: dict[str, Any]) -> Group:
    """A record for a terminal."""
    thresholds = told["thresholds"]
    at = datetime.fromtimestamp(told["at"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    limits = f"floor {thresholds['floor']:.3f}, ratio {thresholds['ratio']:g}"
    return Group(
        Text(f"{told['id']}, namespace {told['namespace']!r}, {at}"),
        Text(""),
        _words(told["prompt"]["cue"]),
        Text(""),
        _votes(told["votes"], thresholds["floor"]),
        Text(f"{told['reason']} ({limits})"),
        Text(""),
        _recalled(told["recalled"]),
        *(Text(_span(span)) for span in told["spans"]),
        Text("  ".join(f"{part} {ms:.2f} ms" for part, ms in told["ms"].items())),
    )


def _words(cue: list[dict[str, Any]]) -> Text:
    """The cue's words, shaded by weight."""
    heaviest = max((row["weight"] for row in cue), default=0.0)
    words = Text()
    for row in cue:
        share = max(0.0, row["weight"]) / heaviest if heaviest > 0 else 0.0
        words.append(row["text"], style=SHADES[round(share * (len(SHADES) - 1))])
    return words


def _votes(votes: list[dict[str, Any]], floor: float) -> Table:
    """The best votes as bars, the floor marked in them."""
    table = Table("event", "vote", "", box=None)
    top = max([floor, *(vote["value"] for vote in votes)], default=0.0)
    for vote in votes:
        cells = max(0, round(BAR_CELLS * vote["value"] / top)) if top > 0 else 0
        mark = max(0, round(BAR_CELLS * floor / top)) if top > 0 else 0
        bar = "".join("│" if cell == mark else "█" if cell < cells else " " for cell in range(BAR_CELLS + 1))
        table.add_row(
            Text(vote["event_id"][:19]), f"{vote['value']:.3f}", Text(bar, "green" if vote["recalled"] else "dim")
        )
    return table


def _recalled(events: list[dict[str, Any]]) -> Table:
    table = Table("recalled", "said at (UTC)", "namespace", "chat", "role", "text")
    for event in events:
        said_at = datetime.fromtimestamp(event["said_at"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        cells = (event["id"][:19], said_at, event["namespace"], event["chat_id"][:19], event["role"], event["text"])
        # As it is: what people wrote is no markup.
        table.add_row(*map(Text, cells))
    return table


def _span(span: dict[str, Any]) -> str:
    composed = f", {len(span['composed'])} composed into recurrent states" if span["composed"] else ""
    return f"{span['num_tokens']} tokens at position {span['position']}, {span['way']}{composed}"
