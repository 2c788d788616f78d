"""`v14 version`."""

import json

import typer

from v14.check.rows import versions
from v14.cli.store import JsonFlag


def version(as_json: JsonFlag = False) -> None:
    """Versions of this package and of what it stands on."""
    if as_json:
        typer.echo(json.dumps(versions(), indent=1))
        return
    for package, number in versions().items():
        typer.echo(f"{package} {number}")
