"""`v14 store`: where the memory lies and what is in it. Reads only, also while a server runs."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from v14.config import Switches
from v14.store import looking as view

app = typer.Typer(help="Where the memory lies and what is in it.", no_args_is_help=True)

JsonFlag = Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")]


@app.command()
def path() -> None:
    """The home directory of the stores (SGLANG_V14_MEMORY_HOME)."""
    typer.echo(Switches.read().memory_home)


@app.command()
def status(as_json: JsonFlag = False) -> None:
    """Sizes of every store, one for each set of weights."""
    stores = view.views(Switches.read().memory_home)
    if as_json:
        typer.echo(json.dumps([{**asdict(store), "path": str(store.path)} for store in stores], indent=1))
        return
    table = Table()
    for column in ("weights", "events", "tokens", "bytes", "set aside", "namespaces"):
        table.add_column(column, justify="right" if column not in ("weights", "namespaces") else "left")
    for store in stores:
        sizes = (store.num_events, store.num_tokens, store.num_bytes, store.num_corrupt)
        names = ", ".join(f"{name} ({events})" for name, events in store.namespaces.items())
        table.add_row(store.weights_id[:19], *(f"{size:,}" for size in sizes), names)
    Console().print(table)


@app.command("list")
def list_(
    as_json: JsonFlag = False,
    namespace: Annotated[str | None, typer.Option(help="Only this namespace.")] = None,
) -> None:
    """Every event, oldest first."""
    events = view.events(Switches.read().memory_home, namespace)
    if as_json:
        typer.echo(json.dumps([asdict(event) for event in events], indent=1))
        return
    table = Table()
    for column in ("said at (UTC)", "namespace", "chat", "role", "tokens", "id"):
        table.add_column(column, justify="right" if column == "tokens" else "left")
    for event in events:
        said_at = datetime.fromtimestamp(event.said_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        ids = (event.chat_id[:19], event.role, str(event.num_tokens), event.id[:19])
        table.add_row(said_at, event.namespace, *ids)
    Console().print(table)
