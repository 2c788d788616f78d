"""`v14 store forget | ttl | audit | verify | repair`: what changes a store, or looks at all of it.

An embedded store belongs to the server that runs on it: these commands then refuse, by name. A shared one takes them at
any time.
"""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from v14.cli.store import JsonFlag
from v14.config import Switches
from v14.errors import StoreError
from v14.home import SharedHome
from v14.namespaces import DEFAULT_NAMESPACE
from v14.store import looking
from v14.store.contract import Store
from v14.store.core import CoreStore
from v14.store.forget import Selection
from v14.store.forget import forget as forget_selected
from v14.store.master import master_key
from v14.store.opening import open_store
from v14.store.policies import Policy
from v14.store.repair import drop_set_aside, rebuild

DAY_S = 86_400.0

NamespaceOption = Annotated[str | None, typer.Option(help="The namespace; of itself alone, all of it is meant.")]
YesFlag = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

Result = TypeVar("Result")


def forget(
    namespace: NamespaceOption = None,
    event: Annotated[list[str] | None, typer.Option(help="The id of an event; may be given several times.")] = None,
    chat: Annotated[str | None, typer.Option(help="The id of a chat.")] = None,
    between: Annotated[
        tuple[str, str] | None, typer.Option(help="Two times, ISO 8601 (UTC if not said) or Unix seconds.")
    ] = None,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Forget events, a chat, a time or a whole namespace: nothing of it is left in any file of the store."""
    if namespace is None and not event and chat is None and between is None:
        raise typer.BadParameter("say what to forget: --event, --chat, --between or --namespace")
    since, until = (_time(text) for text in between) if between else (-math.inf, math.inf)
    try:
        selection = Selection(ids=tuple(event) if event else None, chat_id=chat, since=since, until=until)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    name = DEFAULT_NAMESPACE if namespace is None else namespace
    if not yes:
        typer.confirm(f"Forget what is selected by {selection.kind} in the namespace {name!r}, for good?", abort=True)
    counts = on_each(lambda store: forget_selected(store, name, selection, requested_by="v14 store forget"))
    if as_json:
        typer.echo(json.dumps({"forgotten": sum(counts.values()), "stores": counts}))
    else:
        typer.echo(f"{sum(counts.values())} events are forgotten.")


def ttl(
    namespace: NamespaceOption = None,
    days: Annotated[float | None, typer.Option(help="Days after which an event that is not said again goes.")] = None,
    never: Annotated[bool, typer.Option("--never", help="Let events live for ever.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """How long the events of namespaces live; with a namespace and --days or --never, decide it."""
    if days is not None or never:
        if namespace is None or (days is not None) == never:
            raise typer.BadParameter("to decide it, give --namespace and either --days or --never")
        if days is not None and not 0 < days < math.inf:
            raise typer.BadParameter(f"--days is above 0, not {days}; --never lets events live for ever")
        ttl_s = None if days is None else days * DAY_S
        on_each(lambda store: _set_ttl(store, namespace, ttl_s))
    found = [
        {"weights_id": weights_id, "namespace": name, "ttl_s": policy.ttl_s}
        for weights_id, policies in looking.policies(Switches.read().memory_home).items()
        for name, policy in policies.items()
        if policy.ttl_s is not None and namespace in (None, name)
    ]
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    for entry in found:
        lifetime = float(str(entry["ttl_s"])) / DAY_S
        typer.echo(f"{str(entry['weights_id'])[:19]} {entry['namespace']}: {lifetime:g} days")


def audit(as_json: JsonFlag = False) -> None:
    """What was forgotten, expired, evicted and imported, and when: how many events, and nothing of what they said."""
    records = [
        {"weights_id": weights_id, **asdict(record)}
        for weights_id, found in looking.audits(Switches.read().memory_home).items()
        for record in found
    ]
    if as_json:
        typer.echo(json.dumps(records, indent=1))
        return
    table = Table()
    columns = ("at", "action", "selection", "namespace_digest", "num_events", "num_tokens", "requested_by")
    for column in ("at (UTC)", *columns[1:]):
        table.add_column(column.removeprefix("num_").replace("_", " "))
    for record in records:
        at = datetime.fromtimestamp(float(record["at"]), UTC).strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(at, *(str(record[column]) for column in columns[1:]))
    Console().print(table)


def verify(as_json: JsonFlag = False) -> None:
    """Read every event and set aside what is damaged; exit status 1 if there is any."""
    failed = {weights_id: list(keys) for weights_id, keys in on_each(lambda store: store.verify()).items()}
    if as_json:
        typer.echo(json.dumps(failed, indent=1))
    else:
        for weights_id, keys in failed.items():
            typer.echo(f"{weights_id[:19]}: {len(keys)} events are set aside")
    raise typer.Exit(1 if any(failed.values()) else 0)


def repair(
    drop: Annotated[bool, typer.Option("--drop", help="Erase the events that are set aside.")] = False,
    catalog: Annotated[
        str | None, typer.Option(help="The id of the weights whose catalog to make again from its segments.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Take back what was mended, drop what is damaged, or make a lost catalog again."""
    switches = Switches.read()
    if isinstance(switches.memory_home, SharedHome):
        raise StoreError(
            "a shared store is mended with the tools of its database; use them, `v14 store verify` looks at it"
        )
    if catalog is not None:
        rebuilt = asdict(rebuild(switches.memory_home, catalog, master_key(switches)))
        typer.echo(json.dumps(rebuilt) if as_json else f"the catalog of {catalog[:19]} is new: {rebuilt}")
        return

    def mend(store: CoreStore) -> dict[str, int]:
        num_failed = len(store.verify())
        return {"set_aside": num_failed, "dropped": drop_set_aside(store) if drop else 0}

    counts = on_each(mend)
    if as_json:
        typer.echo(json.dumps(counts, indent=1))
        return
    for weights_id, count in counts.items():
        typer.echo(f"{weights_id[:19]}: {count['set_aside']} events set aside, {count['dropped']} of them dropped")


def on_each(call: Callable[[CoreStore], Result]) -> dict[str, Result]:
    """What `call` returns for every store of the home, by weights id, each opened for it."""
    home = Switches.read().memory_home
    results = {}
    for weights_id in looking.weights_ids(home):
        with _opened(weights_id) as store:
            results[weights_id] = call(store)
    return results


@contextmanager
def _opened(weights_id: str) -> Iterator[CoreStore]:
    switches = Switches.read()
    try:
        store = open_store(switches.memory_home, weights_id, master=master_key(switches))
    except StoreError as error:
        if "is being written by process" in str(error):
            raise StoreError(
                f"{error} Or ask the server itself, which can forget while it runs (docs/store.md, Forgetting)."
            ) from error
        raise
    with closing(store):
        yield store


def _set_ttl(store: Store, namespace: str, ttl_s: float | None) -> None:
    old = store.policies().get(namespace, Policy())
    store.set_policy(namespace, Policy(ttl_s=ttl_s, max_bytes=old.max_bytes))


def _time(text: str) -> float:
    """Unix seconds of a time as people write it."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no time: write 2026-11-30T14:00 or Unix seconds") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
