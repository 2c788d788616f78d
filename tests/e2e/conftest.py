"""Real servers of SmolLM2-135M for end-to-end tests, each with an empty memory. `make e2e` makes what they need."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.browsing import chromium
from v14.check.server import Server

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "build" / "clients" / "bin" / "python"
"""The interpreter of the clients' own environment."""


@contextmanager
def serving(room, **environment):
    """A started server; its log is searched for tracebacks at the end."""
    directory = Path(os.environ.get("MODEL", ROOT / ".demo" / "SmolLM2-135M-Instruct-V14"))
    assert directory.is_dir(), f"{directory} is not there: `make e2e` makes it"
    (room / "memory").mkdir()
    server = Server(model_dir=directory, home=room / "memory", log=room / "server.log", environment=environment)
    with server:
        server.start()
        yield server
        assert server.tracebacks() == 0, server.log_tail()


@pytest.fixture(scope="session")
def browser():
    """A real browser, driven by Playwright. Root has no sandbox."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = driver.chromium.launch(executable_path=chromium(), args=arguments)
        yield started
        started.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One server for all tests of a module."""
    with serving(tmp_path_factory.mktemp("e2e")) as server:
        yield server
