"""The variables of the memory: unknown names, and values that cannot work."""

import ast
import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from v14.doctor.finding import Finding, fail, ok

PREFIX = "SGLANG_V14_"
HOME = f"{PREFIX}MEMORY_HOME"
DEFAULT_HOME = "/memory"
SECRET = (f"{PREFIX}KEY",)
OURS = ("OptionError", "StoreKeyError")
"""Errors that the package itself would stop the server with."""

CONFIG = Path(__file__).parent.parent / "config.py"


def known_names() -> list[str]:
    """Every variable there is: the fields of `v14.config.Switches`, read from its source, since importing it needs
    packages that may be missing."""
    for node in ast.parse(CONFIG.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == "Switches":
            fields = (field.target for field in node.body if isinstance(field, ast.AnnAssign))
            return [PREFIX + field.id.upper() for field in fields if isinstance(field, ast.Name)]
    return []


def home(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The directory of the stores; None where the variable has the URL of a shared one."""
    value = environ.get(HOME) or DEFAULT_HOME
    return None if "://" in value else Path(value)


def shown(value: str) -> str:
    """A value as it may be shown: the password of a URL is left out."""
    return re.sub(r"(://[^:/@?]*):[^@/?]*@", r"\1@", value)


def examine(steps: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Findings; `steps` is what `probing.probe` found out."""
    known = known_names()
    unknown = [name for name in environ if name.startswith(PREFIX) and name not in known]
    for name in unknown:
        close = difflib.get_close_matches(name, known, 1)
        remedy = f"unset it{f', or write {close[0]}' if close else ''}: the server does not start with it"
        yield fail("environment", f"{name} is no variable of the memory", remedy)
    error = steps.get("environment", {}).get("error", "")
    kind, _, message = error.partition(": ")
    if kind in OURS and not unknown:
        yield fail("environment", message, "correct what it names: the server does not start with it")
    for name in known:
        if name in environ:
            yield ok("environment", f"{name} is set" if name in SECRET else f"{name}={shown(environ[name])}")
    if not any(name in environ for name in (*known, *unknown)):
        yield ok("environment", f"no {PREFIX}* variable is set")
