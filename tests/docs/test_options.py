"""The page of options is what the code has now."""

import importlib.util
from dataclasses import fields
from pathlib import Path

import pytest

from v14.config import ENV_PREFIX, Options, Switches
from v14.engines.sglang.server_args import RULES

SITE = Path(__file__).parents[2] / "docs" / "_site"


@pytest.fixture(scope="module")
def options():
    spec = importlib.util.spec_from_file_location("docs_options", SITE / "options.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_true(options):
    assert options.PAGE.read_text() == options.page(), "run `python docs/_site/options.py`"


def test_the_page_names_everything(options):
    text = options.page()
    names = [*Options.model_fields, *(ENV_PREFIX + field.name.upper() for field in fields(Switches))]
    names += ["--" + rule.argument.replace("_", "-") for rule in RULES]
    assert [name for name in names if f"| `{name}` |" not in text] == []
