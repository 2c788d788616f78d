"""Writes `docs/options.md` from the code: `python docs/_site/options.py`.

Names, values and defaults are the code's; what they mean is said in the README's tables and in the help of commands.
`tests/docs/test_options.py` fails when the page is not what this writes.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from typer.main import get_command

from v14.cli import app
from v14.config import CONFIG_KEY, ENV_PREFIX, Options, Switches
from v14.engines.sglang.server_args import RULES
from v14.home import SharedHome

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "options.md"
BOUNDS = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le"), Lt: ("<", "lt")}

OPENING = """\
# Options

This page is written by `python docs/_site/options.py` from the code.

A V14 directory says how its model remembers, the environment how a server does, and a request whose memory it wants and
what to do with it ([Talk to it](clients.md)). Directory and environment are read once, at start. An unknown name or a
bad value is an error that names it, never ignored.
"""


def page() -> str:
    """The page as the code has it now."""
    return "\n".join([OPENING, *directory_options(), *variables(), *refused_arguments(), *commands()]) + "\n"


def directory_options() -> list[str]:
    """The section about `config.json`."""
    meanings = readme_table("option")
    rows = [
        (f"`{name}`", values(field.annotation, field.metadata), default_of(field), meanings[name])
        for name, field in Options.model_fields.items()
    ]
    return [
        "## In a V14 directory\n",
        f"In `config.json` under the key `{CONFIG_KEY}`. `v14 upgrade` writes them; change them there and restart.\n",
        *table(("option", "values", "default", "meaning"), rows),
    ]


def variables() -> list[str]:
    """The section about the environment."""
    meanings = readme_table("variable")
    rows = []
    for field in fields(Switches):
        name = ENV_PREFIX + field.name.upper()
        if isinstance(field.default, bool):
            kind, default = "`0`, `1`", f"`{int(field.default)}`"
        else:
            kind, default = values(field.type, ()), "" if field.default is None else f"`{stated(field.default)}`"
        rows.append((f"`{name}`", kind, default, meanings[name]))
    return ["## In the environment of the server\n", *table(("variable", "values", "default", "meaning"), rows)]


def refused_arguments() -> list[str]:
    """The section about SGLang's arguments."""
    rows = [(f"`--{rule.argument.replace('_', '-')}`", rule.remedy) for rule in RULES]
    return [
        "## Server arguments that are refused\n",
        "Some of SGLang's arguments, or some of their values, cannot be served together with memory. The server then",
        "stops at start and names all of them at once. `SGLANG_V14_MEMORY=0` serves the same directory without memory",
        "and refuses nothing.\n",
        *table(("argument", "instead"), rows),
    ]


def commands() -> list[str]:
    """The section about the command line."""
    lines = ["## The command `v14`\n"]
    for path, command in leaves("v14", get_command(app)):
        lines += [f"### {path}\n", " ".join((command.help or "").split()) + "\n"]
        if command.params:
            lines += table(("", "meaning"), [(f"`{spelling(param)}`", said(param)) for param in command.params])
    return lines


def leaves(path: str, command: Any) -> list[tuple[str, Any]]:
    """Every command below, with the words that call it."""
    below = getattr(command, "commands", None)
    if below is None:
        return [(path, command)]
    return [leaf for name, child in below.items() for leaf in leaves(f"{path} {name}", child)]


def spelling(param: Any) -> str:
    """How an option or an argument is written."""
    if param.param_type_name == "argument":
        return str(param.name).upper()
    return ", ".join([*param.opts, *param.secondary_opts])


def said(param: Any) -> str:
    """What a parameter's help says, its choices and its default."""
    words = " ".join((param.help or "").split())
    if isinstance(param.default, Enum):
        choices = ", ".join(f"`{choice.value}`" for choice in type(param.default))
        return f"{words} One of {choices}; default `{param.default.value}`."
    if isinstance(param.default, str | int) and not isinstance(param.default, bool):
        return f"{words} Default `{param.default}`."
    return words


def values(annotation: Any, constraints: Any) -> str:
    """What a type admits, in words."""
    if get_origin(annotation) is Literal:
        return ", ".join(
            f"`{value if isinstance(value, str) else json.dumps(value)}`" for value in get_args(annotation)
        )
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(text for kind in get_args(annotation) if (text := values(kind, constraints)))
    if annotation is bool:
        return "`true`, `false`"
    bounds = [
        f"{sign}\u00a0{getattr(limit, attribute)}" for limit in constraints for sign, attribute in [BOUNDS[type(limit)]]
    ]
    words = {
        int: "integer",
        float: "number",
        str: "text",
        Path: "path",
        type(None): "",
        SharedHome: "URL of a shared store",
    }
    return ", ".join([words.get(annotation, getattr(annotation, "__name__", str(annotation))), *bounds])


def default_of(field: Any) -> str:
    """The default of an option as `config.json` has it."""
    return "by `v14 upgrade`" if field.is_required() else f"`{json.dumps(field.default)}`"


def stated(value: Any) -> str:
    """A default as a variable has it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def readme_table(first_column: str) -> dict[str, str]:
    """The last column of a table of the README by its first, links turned to where this page lies."""
    rows = (ROOT / "README.md").read_text().split(f"\n| {first_column} |")[1].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return {row[0].strip("`"): row[-1].replace("](docs/", "](") for row in cells}


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A Markdown table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:], ""]


if __name__ == "__main__":
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}\n")
    PAGE.write_text(page())
