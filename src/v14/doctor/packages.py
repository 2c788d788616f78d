"""Python and the packages that the memory stands on."""

import platform
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

import v14
from v14.doctor.finding import Finding, fail, ok, warn

DISTRIBUTION = "sglang-v14"
MIN_PYTHON = (3, 11)
ENGINES = ("sglang", "transformers")
IMPORTED = ("torch", "triton", "sglang", "transformers")
"""Packages that are not only looked up but imported: of these, installed does not mean working."""


def needed() -> list[str]:
    """Names of the packages that the distribution requires whatever is served; empty where it is not installed."""
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    names = (re.match(r"[A-Za-z0-9._-]+", line) for line in lines if "extra ==" not in line)
    return [name[0] for name in names if name]


def examine(steps: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings; `steps` is what `probing.probe` found out."""
    if sys.version_info < MIN_PYTHON:
        yield fail("python", platform.python_version(), "install Python 3.11 or newer")
    else:
        yield ok("python", f"{platform.python_version()} ({sys.executable})")
    if not needed():
        yield fail(
            DISTRIBUTION,
            f"{v14.__version__} runs from {v14.__path__[0]}, but is not installed: SGLang finds no plugin",
            "pip install sglang-v14 into this Python",
        )
    else:
        yield ok(DISTRIBUTION, f"{v14.__version__} in {v14.__path__[0]}")
    for name in dict.fromkeys((*needed(), *ENGINES, "triton")):
        yield _package(name, steps)


def _package(name: str, steps: Mapping[str, Any]) -> Finding:
    try:
        installed = version(name)
    except PackageNotFoundError:
        if name in ENGINES:
            return warn(name, "is not installed", f"pip install 'sglang-v14[{name}]' to serve with it")
        if name == "triton":
            return warn(name, "is not installed", "on a GPU, pip install triton; a plain CPU does without")
        return fail(name, "is not installed", f"pip install {name}, or pip install --force-reinstall sglang-v14")
    if name not in IMPORTED:
        return ok(name, installed)
    step = steps.get(name, {})
    if "error" in step:
        return fail(
            name, f"{installed} is installed but cannot be imported: {step['error']}", f"reinstall {name} {installed}"
        )
    details = step.get("value") or ""
    return ok(name, f"{installed}{details and f' ({details})'}")
