"""`v14 upgrade`."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


class Link(StrEnum):
    """How the new directory holds the checkpoint's files."""

    hardlink = "hardlink"
    symlink = "symlink"
    copy = "copy"


class Device(StrEnum):
    """Where the model reads the calibration set."""

    cpu = "cpu"
    cuda = "cuda"


def upgrade(
    src: Annotated[Path, typer.Argument(help="The checkpoint, a directory with config.json and safetensors.")],
    out: Annotated[Path, typer.Argument(help="The V14 directory to make.")],
    link: Annotated[Link, typer.Option(help="How the weights get into the V14 directory.")] = Link.hardlink,
    calibration: Annotated[
        Path | None,
        typer.Option(help="A calibration set of your own (JSON), for a model of another language or narrow subject."),
    ] = None,
    device: Annotated[Device, typer.Option(help="Where the model reads the calibration set.")] = Device.cpu,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write what was measured as JSON; the rest to stderr.")
    ] = False,
) -> None:
    """Make a V14 directory of a checkpoint: its own files, the memory's voters, options and code."""
    # Transformers takes seconds to import, which the other commands need not wait for.
    from v14.upgrade import upgrade as make
    from v14.upgrade.report import Report

    report = Report(Console(stderr=as_json))
    profile = make(src, out, link=link.value, calibration=calibration, report=report, device=device.value)
    if as_json:
        told = {"directory": str(out), "weights_id": profile.weights_id, "options": profile.options.model_dump()}
        typer.echo(json.dumps({**told, "measured": dict(profile.measured)}, indent=1))
