"""The command `v14`: one file per noun."""

import sys

import typer
from rich.console import Console

from v14.cli import check, corrections, doctor, event, recall, store, upgrade, upkeep, version
from v14.errors import V14Error

app = typer.Typer(
    name="v14",
    help="Memory for language models served by SGLang.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("upgrade")(upgrade.upgrade)
app.command("check")(check.check)
app.command("doctor")(doctor.doctor)
for change in (upkeep.forget, upkeep.ttl, upkeep.audit, upkeep.verify, upkeep.repair):
    store.app.command()(change)
for command in (corrections.links, corrections.unlink):
    store.app.command()(command)
app.add_typer(store.app, name="store")
app.add_typer(event.app, name="event")
app.add_typer(recall.app, name="recall")
app.command("version")(version.version)


def main() -> None:
    """Run the command line; an error that a user can mend is one message and exit status 1."""
    try:
        app()
    except V14Error as error:
        Console(stderr=True, soft_wrap=True).print(f"v14: {error}", style="red", markup=False, highlight=False)
        sys.exit(1)
