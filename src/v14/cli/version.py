"""`v14 version`."""

import typer

from v14.check.rows import versions


def version() -> None:
    """Versions of this package and of what it stands on."""
    for package, number in versions().items():
        typer.echo(f"{package} {number}")
