"""The README's tables say what the code reads, and the files that it names are there."""

import json
import re
from dataclasses import fields
from pathlib import Path

from typer.main import get_command

from v14.cli import app
from v14.config import ENV_PREFIX, Options, Switches
from v14.engines.sglang.server_args import BACKENDS
from v14.engines.sglang.symbols import TESTED_VERSIONS
from v14.models.registry import ADAPTERS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def table(first_column):
    """Cells of the table whose first heading is `first_column`."""
    rows = README.split(f"\n| {first_column} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_options():
    rows = table("option")
    assert [name.strip("`") for name, *_ in rows] == list(Options.model_fields)
    for name, default, _ in rows:
        field = Options.model_fields[name.strip("`")]
        stated = "by `v14 upgrade`" if field.is_required() else f"`{json.dumps(field.default)}`"
        assert default == stated, name


def test_environment():
    rows = table("variable")
    names = [name.strip("`") for name, *_ in rows]
    assert names == [ENV_PREFIX + field.name.upper() for field in fields(Switches)]
    stated = {name.strip("`"): default.strip("`") for name, default, _ in rows if default != "not set"}
    assert Switches.read(stated) == Switches()


def test_architectures_and_engines():
    named = [name for _, names, _ in table("family") for name in re.findall(r"`(\w+)`", names)]
    assert sorted(named) == sorted(ADAPTERS)
    rows = table("SGLang")
    assert " and ".join(sorted(version for version, *_ in rows)) == TESTED_VERSIONS
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row[2])} == set(BACKENDS)


def test_commands_and_links():
    named = set(re.findall(r"^    v14 ((?:store|recall|event) [\w-]+|\w+)", README, re.MULTILINE))
    commands = get_command(app).commands
    nested = {f"{noun} {name}" for noun in ("store", "recall", "event") for name in commands[noun].commands}
    assert named == set(commands) - {"store", "recall", "event"} | nested
    options = {name for param in commands["upgrade"].params for name in param.opts if name.startswith("--")}
    assert all(name in README for name in options)
    links = re.findall(r"\]\((?!http)([^)]+)\)", README)
    assert links
    assert all((ROOT / link).is_file() for link in links)


def test_make_targets():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"\.PHONY: (.*)", makefile)[1].split())
    assert set(re.findall(r"make ([a-z][a-z-]+)", README)) <= targets
