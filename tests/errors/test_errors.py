"""Every message has its row, every row a test that is there, and every message says what to do."""

import ast
import re

import pytest

from tests.errors.messages import ROOT, error_classes, messages, template
from tests.errors.page import PAGE, page, provoked, provoker_of

HOW = "run `python -m tests.errors PATH-OF-THE-TEST`, which records it and writes docs/errors.md anew"

INTERNAL = {"TraceCorruptError", "TraceNotKeptError", "StoreUnavailableError", "HTTPException"}
"""Errors that are dealt with where they are caught, or that answer a client about its own request."""

PASSED_ON = {"…", "…: …", "sglang-v14: …", "… answers …: …. ….", "the store is closed"}
"""Messages that hand another's on, or that only a stopping server logs."""

REMEDY = re.compile(
    r"\b(give|set|unset|make|install|use|run|write|serve|serves|leave|choose|remove|put|check|stop|end|try|tried|ask|asked|"
    r"look|download|save|correct|name|send|let|is none of|needs|needed|reads|open|start|forget again|see|written again|"
    r"restart|address|knows it by|say|says how|gives|sets it aside)\b",
    re.IGNORECASE,
)


def test_the_page_is_that_of_the_source():
    assert PAGE.read_text() == page(), "docs/errors.md is not up to date: run `python -m tests.errors`"


def test_every_message_has_a_test():
    tests = provoked()
    missing = [message.key for message in messages() if not provoker_of(message, tests)]
    assert not missing, f"no test is known to provoke {missing}; {HOW}"


def functions(path):
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_test_that_is_named_is_there():
    tests = provoked()
    for name in sorted({provoker_of(message, tests) for message in messages()} - {""}):
        file, *_, function = name.split("::")
        assert (ROOT / file).is_file(), f"{name}; {HOW}"
        assert function in functions(ROOT / file), f"{name}; {HOW}"


@pytest.mark.parametrize("message", messages(), ids=lambda message: f"{message.file}:{message.first}")
def test_every_message_says_what_to_do(message):
    if message.error not in INTERNAL and message.text not in PASSED_ON and message.error != "refused at start":
        assert REMEDY.search(message.text), f"{message.text!r} names no remedy"


def test_the_reading_of_the_source():
    assert {"V14Error", "StoreVersionError", "RefusedError"} <= error_classes()
    assert template(ast.parse("f'a {b}: ' + '; '.join(c) + 'd'", mode="eval").body) == "a …: …d"
    assert template(ast.parse("'one ' + 'two'", mode="eval").body) == "one two"
    assert template(ast.parse("reason", mode="eval").body) == ""
