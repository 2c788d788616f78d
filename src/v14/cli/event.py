"""`v14 event`: what a namespace holds, asked of a running server."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from v14.cli.asking import DEFAULT_URL, KeyFileOption, NamespaceOption, ServerOption, asking
from v14.cli.store import JsonFlag
from v14.client import Stored
from v14.errors import EventFileError

app = typer.Typer(help="What a namespace holds, asked of a running server.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of an event.")]


@app.command("list")
def list_(
    chat: Annotated[str, typer.Option(help="Only events of this chat.")] = "",
    server: ServerOption = DEFAULT_URL,
    namespace: NamespaceOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Every event with its text, oldest first."""
    _print(asking(server, namespace, key_file).events(chat_id=chat), as_json)


@app.command()
def search(
    words: Annotated[str, typer.Argument(help="What stands in the text, whatever its case.")],
    server: ServerOption = DEFAULT_URL,
    namespace: NamespaceOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonFlag = False,
) -> None:
    """The events with these words in them."""
    _print(asking(server, namespace, key_file).search(words), as_json)


@app.command()
def show(
    event_id: IdArgument,
    server: ServerOption = DEFAULT_URL,
    namespace: NamespaceOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonFlag = False,
) -> None:
    """One event, and its links: what it supersedes, what supersedes it, what it is associated with."""
    client = asking(server, namespace, key_file)
    event, links = client.show(event_id), client.links(event_id)
    if as_json:
        shown = {**asdict(event), "links": [asdict(link) for link in links]}
        typer.echo(json.dumps(shown, indent=1, ensure_ascii=False))
        return
    _print([event], False)
    if links:
        table = Table("link", "score", "said at (UTC)", "text", "id")
        for link in links:
            other = link.event
            way = f"{link.kind} →" if link.outgoing else f"← {link.kind}"
            table.add_row(*map(Text, (way, f"{link.weight:.2f}", _at(other.said_at), other.text, other.id)))
        Console().print(table)


@app.command()
def unlink(
    later: Annotated[str, typer.Argument(help="The id of the event that supersedes.")],
    earlier: Annotated[str, typer.Argument(help="The id of the event that is superseded.")],
    server: ServerOption = DEFAULT_URL,
    namespace: NamespaceOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Take a link out while the server runs: both events stand for themselves again. It does not come back."""
    done = asking(server, namespace, key_file).unlink(later, earlier)
    typer.echo(json.dumps(done, indent=1) if as_json else f"{done['unlinked']} links are taken out.")


@app.command()
def forget(
    event_id: Annotated[list[str], typer.Argument(metavar="ID...", help="The ids of events.")],
    server: ServerOption = DEFAULT_URL,
    namespace: NamespaceOption = None,
    key_file: KeyFileOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Forget events while the server runs, for good, and what says the same in the same words."""
    if not yes:
        typer.confirm(f"Forget {len(event_id)} events, for good?", abort=True)
    done = asking(server, namespace, key_file).forget(event_id)
    typer.echo(json.dumps(done, indent=1) if as_json else f"{done['forgotten']} events are forgotten.")


@app.command()
def export(
    file: Annotated[Path | None, typer.Argument(help="Where to; standard output if not given.")] = None,
    server: ServerOption = DEFAULT_URL,
    namespace: NamespaceOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Every event with text and token ids, one JSON object a line; --json says how many went into the file."""
    lines = (json.dumps(event, ensure_ascii=False) for event in asking(server, namespace, key_file).export())
    if file is None:
        for line in lines:
            typer.echo(line)
        return
    num_events = 0
    with file.open("w", encoding="utf-8") as out:
        for line in lines:
            out.write(line + "\n")
            num_events += 1
    typer.echo(json.dumps({"file": str(file), "num_events": num_events}) if as_json else f"{num_events} events.")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that `export` wrote, or turns in plain words; - reads them in.")],
    server: ServerOption = DEFAULT_URL,
    namespace: NamespaceOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Have the model read exported events again, into one namespace; all lines or none."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise EventFileError(f"{file} cannot be read ({error.strerror}); give a file of events") from error
    done = asking(server, namespace, key_file).import_events(data)
    if as_json:
        typer.echo(json.dumps(done, indent=1))
    else:
        typer.echo("{imported} events are imported, {known} were known, {failed} were not read.".format(**done))
    raise typer.Exit(1 if done["failed"] else 0)


@app.command()
def stats(
    server: ServerOption = DEFAULT_URL,
    namespace: NamespaceOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonFlag = False,
) -> None:
    """How much a namespace holds, since when and until when; with an operator's key the whole store's figures, too."""
    found = asking(server, namespace, key_file).stats()
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        if value is not None:
            typer.echo(f"{name}: {_at(value) if name.endswith('said_at') else value}")


def _print(events: Iterable[Stored], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([asdict(event) for event in events], indent=1, ensure_ascii=False))
        return
    table = Table("said at (UTC)", "role", "chat", "text", "id")
    for event in events:
        # As it is: what people wrote is no markup.
        table.add_row(*map(Text, (_at(event.said_at), event.role, event.chat_id[:19], event.text, event.id)))
    Console().print(table)


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
