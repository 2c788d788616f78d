"""The check's result: rows that count right answers or give a measured value, and their JSON form."""

import contextlib
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import v14
from v14.check.reference import COLUMNS, FIGURES, MACHINE


@dataclass(frozen=True, kw_only=True)
class Count:
    """`right` answers of `of`."""

    name: str
    right: int
    of: int

    def to_json(self) -> dict[str, Any]:
        """The row as written to a file."""
        return {"name": self.name, "right": self.right, "of": self.of}

    def __str__(self) -> str:
        """The figure as people read it."""
        return f"{self.right}/{self.of}"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measured value and its unit."""

    name: str
    value: float
    unit: str

    def to_json(self) -> dict[str, Any]:
        """The row as written to a file."""
        return {"name": self.name, "value": self.value, "unit": self.unit}

    def __str__(self) -> str:
        """The figure as people read it."""
        return f"{self.value:.4g} {self.unit}"


@dataclass(kw_only=True)
class Report:
    """All rows of one check, in order. `skipped` says by name which rows were left out, and why.

    `questions` is the file that was asked from, None for the package's own. `changed` is called with the report after
    every row, so that a check that breaks off leaves what it has.
    """

    model: str
    seed: int
    questions: str | None = None
    rows: list[Count | Measure] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.time)
    complete: bool = False
    changed: Callable[["Report"], None] = lambda report: None

    def count(self, name: str, right: int, of: int) -> None:
        """Add a row of right answers."""
        self.rows.append(Count(name=name, right=int(right), of=of))
        self.changed(self)

    def measure(self, name: str, value: float, unit: str) -> None:
        """Add a row with a measured value."""
        self.rows.append(Measure(name=name, value=value, unit=unit))
        self.changed(self)

    def skip(self, why: str, *names: str) -> None:
        """Note rows that this run cannot have."""
        self.skipped |= dict.fromkeys(names, why)

    def end(self) -> None:
        """Nothing is left to be asked."""
        self.complete = True
        self.changed(self)

    def value(self, name: str) -> float | None:
        """The value or the right answers of the row `name`; None without such a row."""
        for row in self.rows:
            if row.name == name:
                return row.right if isinstance(row, Count) else row.value
        return None

    def to_json(self) -> dict[str, Any]:
        """The whole report: rows, why others are missing, where and when, and what another system reports."""
        return {
            "model": self.model,
            "seed": self.seed,
            "questions": self.questions,
            "began": datetime.fromtimestamp(self.began, UTC).isoformat(timespec="seconds"),
            "seconds": round(time.time() - self.began, 1),
            "complete": self.complete,
            "machine": machine(),
            "versions": versions(),
            "rows": [row.to_json() for row in self.rows],
            "skipped": self.skipped,
            "other_system": {"machine": MACHINE, "columns": list(COLUMNS), "rows": FIGURES},
        }


def machine() -> Mapping[str, Any]:
    """What the check ran on: processor, cores, how busy they were in the last minute, GPU."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"processor": _processor(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "gpu": gpu}


def _processor() -> str:
    """The processor's name as Linux has it, else its architecture."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def versions() -> Mapping[str, str]:
    """Versions of what took part on this machine; a package that is not installed is left out."""
    found = {"v14": v14.__version__}
    for package in ("sglang", "torch", "transformers"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found | {"python": platform.python_version()}
