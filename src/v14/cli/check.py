"""`v14 check`."""

import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from v14.check.own import load
from v14.check.plot import check_plot, draw
from v14.check.progress import bars, phases
from v14.check.questions import english
from v14.check.rows import Report
from v14.check.run import check_directory, check_url, passed
from v14.check.table import render


def check(
    directory: Annotated[Path | None, typer.Argument(help="The V14 directory to serve and check.")] = None,
    url: Annotated[str | None, typer.Option(help="Check this running server instead.")] = None,
    seed: Annotated[int, typer.Option(help="Chooses the facts and questions.")] = 0,
    questions: Annotated[
        Path | None,
        typer.Option(help="Facts and questions of your own (JSON), for a model of another language or narrow subject."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the rows to this file, after every row.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the rows into this file, .svg or .png; needs `sglang-v14[plot]`.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the store and the server's log.")] = False,
    server_arg: Annotated[
        list[str] | None, typer.Option(help="One more argument for `sglang serve`, as in --server-arg=--dtype=float32.")
    ] = None,
) -> None:
    """Ask a server what it remembers: a table of rows, exit status 1 if it failed or left a traceback."""
    if (directory is None) == (url is None):
        raise typer.BadParameter("give either a directory or --url")
    if plot is not None:
        check_plot(plot)
    asked = english(seed) if questions is None else load(questions, seed)

    def write(report: Report) -> None:
        if json_file is not None:
            json_file.write_text(json.dumps(report.to_json(), indent=1) + "\n")

    # A check that is told to stop stops its server, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = Path(tempfile.mkdtemp(prefix="v14-check-"))
    try:
        with bars() as progress:
            if url is not None:
                report = check_url(url, asked, seed=seed, phase=phases(progress), changed=write)
            elif directory is not None:
                report = check_directory(
                    directory,
                    asked,
                    seed=seed,
                    work=work,
                    phase=phases(progress),
                    arguments=server_arg or (),
                    changed=write,
                )
    finally:
        if keep:
            typer.echo(f"kept {work}", err=True)
        else:
            shutil.rmtree(work, ignore_errors=True)
    Console().print(render(report))
    if plot is not None:
        draw(report, plot)
    raise typer.Exit(0 if passed(report) else 1)
