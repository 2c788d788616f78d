"""`v14 store links | unlink`: which statement corrects which, and taking that back."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from v14.cli.store import JsonFlag
from v14.cli.upkeep import NamespaceOption, on_each
from v14.namespaces import DEFAULT_NAMESPACE
from v14.store.core import CoreStore
from v14.types import Link


def links(namespace: NamespaceOption = None, as_json: JsonFlag = False) -> None:
    """Which event supersedes which, and how sure that is: 1 where the later one says that something changed."""

    def found(store: CoreStore) -> list[dict[str, str | float]]:
        names = store.namespaces() if namespace is None else (namespace,)
        return [{"namespace": name, **vars(link)} for name in names for link in store.links(name)]

    by_store = on_each(found)
    if as_json:
        rows = [{"weights_id": weights_id, **link} for weights_id, own in by_store.items() for link in own]
        typer.echo(json.dumps(rows, indent=1))
        return
    table = Table("namespace", "kind", "score", "later", "earlier")
    for link in (link for own in by_store.values() for link in own):
        table.add_row(*(Text(str(link[name])) for name in ("namespace", "kind", "weight", "source", "target")))
    Console(width=None if Console().is_terminal else 200).print(table)


def unlink(
    later: Annotated[str, typer.Argument(help="The id of the event that supersedes.")],
    earlier: Annotated[str, typer.Argument(help="The id of the event that is superseded.")],
    namespace: NamespaceOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Take a link out: both events stand for themselves again. It does not come back by itself. While a server runs on
    a directory, `v14 event unlink` asks it; the servers of a shared store see it by themselves."""
    name = DEFAULT_NAMESPACE if namespace is None else namespace
    link = Link(source=later, target=earlier, kind="supersedes")

    def take(store: CoreStore) -> int:
        known = any((own.source, own.target, own.kind) == (later, earlier, link.kind) for own in store.links(name))
        store.unlink(name, [link])
        store.flush()
        return int(known)

    num_links = sum(on_each(take).values())
    typer.echo(json.dumps({"unlinked": num_links}) if as_json else f"{num_links} links are taken out.")
