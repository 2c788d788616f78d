"""The check's result: rows that count right answers or give a measured value, and their JSON form."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import v14


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
    """All rows of one check, in order. `skipped` says by name which rows were left out, and why."""

    model: str
    seed: int
    rows: list[Count | Measure] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def count(self, name: str, right: int, of: int) -> None:
        """Add a row of right answers."""
        self.rows.append(Count(name=name, right=int(right), of=of))

    def measure(self, name: str, value: float, unit: str) -> None:
        """Add a row with a measured value."""
        self.rows.append(Measure(name=name, value=value, unit=unit))

    def skip(self, why: str, *names: str) -> None:
        """Note rows that this run cannot have."""
        self.skipped |= dict.fromkeys(names, why)

    def value(self, name: str) -> float | None:
        """The value or the right answers of the row `name`; None without such a row."""
        for row in self.rows:
            if row.name == name:
                return row.right if isinstance(row, Count) else row.value
        return None

    def to_json(self) -> dict[str, Any]:
        """The whole report; rows that were skipped are not in it."""
        rows = [row.to_json() for row in self.rows]
        return {"model": self.model, "seed": self.seed, "versions": versions(), "rows": rows}


def versions() -> Mapping[str, str]:
    """Versions of what took part on this machine; a package that is not installed is left out."""
    found = {"v14": v14.__version__}
    for package in ("sglang", "torch", "transformers"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found | {"python": platform.python_version()}
