"""`v14 store`: where the memory lies and what is in it, and another key for it. Looking works while a server runs."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from v14.config import Switches
from v14.errors import OptionError, StoreKeyError
from v14.store import looking as view
from v14.store.master import key_of_command, key_of_file, master_key
from v14.store.rotate import rotate
from v14.store.view import StoreView

PIPED_WIDTH = 160

app = typer.Typer(help="Where the memory lies and what is in it.", no_args_is_help=True)

JsonFlag = Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")]


@app.command()
def path(as_json: JsonFlag = False) -> None:
    """The home directory of the stores (SGLANG_V14_MEMORY_HOME)."""
    home = str(Switches.read().memory_home)
    typer.echo(json.dumps({"path": home}) if as_json else home)


@app.command()
def status(as_json: JsonFlag = False) -> None:
    """Sizes of every store, one for each set of weights."""
    stores = view.views(Switches.read().memory_home)
    if as_json:
        typer.echo(json.dumps([_plain(store) for store in stores], indent=1))
        return
    table = Table()
    numbers = ("events", "tokens", "bytes", "a token", "an event", "set aside")
    for column in ("weights", *numbers, "forms", "namespaces"):
        table.add_column(column, justify="right" if column in numbers else "left")
    for store in stores:
        sizes = (store.num_events, store.num_tokens, store.num_bytes)
        means = (store.bytes_per_token, store.bytes_per_event)
        cells = [f"{round(size):,}" for size in (*sizes, *means, store.num_corrupt)]
        forms, names = _counted(store.forms), _counted(store.namespaces)
        table.add_row(store.weights_id[:19], *cells, forms, names)
    # Into a file or pipe, a row is a line.
    Console(width=None if Console().is_terminal else PIPED_WIDTH).print(table)


def _plain(store: StoreView) -> dict[str, Any]:
    means = {"bytes_per_token": store.bytes_per_token, "bytes_per_event": store.bytes_per_event}
    return {**asdict(store), "path": str(store.path), **means}


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} ({events})" for name, events in counts.items())


@app.command("list")
def list_(
    as_json: JsonFlag = False,
    namespace: Annotated[str | None, typer.Option(help="Only this namespace.")] = None,
) -> None:
    """Every event, oldest first."""
    switches = Switches.read()
    events = view.events(switches.memory_home, namespace, master_key(switches))
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


@app.command("rotate-key")
def rotate_key(
    new_key_file: Annotated[Path | None, typer.Option(help="File that holds the new key.")] = None,
    new_key_command: Annotated[str | None, typer.Option(help="Command that writes the new key.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Give every encrypted store another key. The present one is SGLANG_V14_KEY, …_FILE or …_COMMAND's; no server may
    run on a store meanwhile."""
    switches = Switches.read()
    old = master_key(switches)
    if old is None:
        raise StoreKeyError("the present key is missing: set SGLANG_V14_KEY, SGLANG_V14_KEY_FILE or …_COMMAND")
    if (new_key_file is None) == (new_key_command is None):
        raise OptionError("give the new key with --new-key-file or with --new-key-command")
    new = key_of_file(new_key_file) if new_key_file is not None else key_of_command(str(new_key_command))
    done = []
    for store in view.views(switches.memory_home):
        rotated = store.key == old.id
        if rotated:
            rotate(switches.memory_home, store.weights_id, old, new)
        done.append({"weights_id": store.weights_id, "rotated": rotated, "key": new.id if rotated else store.key})
        if not as_json:
            said = f"key {old.id} became {new.id}" if rotated else f"left alone, its key is {store.key or 'none'}"
            typer.echo(f"{store.weights_id[:19]}: {said}")
    if as_json:
        typer.echo(json.dumps(done, indent=1))
