"""The guide shows the code that there is, and lists what is supported."""

import re
import textwrap
from pathlib import Path

from v14.models import lfm2
from v14.models.registry import ADAPTERS, NOT_SERVED

GUIDE = (Path(__file__).parents[2] / "docs" / "adding_an_architecture.md").read_text()


def test_the_example_is_the_module():
    code = textwrap.indent(Path(lfm2.__file__).read_text(), "    ").rstrip()
    assert code in GUIDE


def test_the_table_lists_every_adapter():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", GUIDE, re.MULTILINE)
    assert dict(rows) == {adapter.architecture: adapter.v14_name for adapter in ADAPTERS.values()}
    assert len(rows) == len(ADAPTERS)
    assert all(f"`{name}`" in GUIDE for name in NOT_SERVED)


def test_the_tests_that_it_names_exist():
    sources = "".join(path.read_text() for path in Path(__file__).parents[1].glob("*/test_*.py"))
    for name in re.findall(r"`(test_\w+)`", GUIDE):
        assert f"def {name}(" in sources
