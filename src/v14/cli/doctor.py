"""`v14 doctor`."""

from pathlib import Path
from typing import Annotated

import typer

from v14.doctor import run


def doctor(
    directory: Annotated[Path | None, typer.Argument(help="A V14 directory to look at as well.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")] = False,
) -> None:
    """What is wrong with this installation, and what to do about it; exit status 1 if something is to be mended."""
    raise typer.Exit(run.main([*([] if directory is None else [str(directory)]), *(["--json"] if as_json else [])]))
