"""One real server for all end-to-end tests: SmolLM2-135M with an empty memory. `make e2e` makes what it needs."""

import os
from pathlib import Path

import pytest

from v14.check.server import Server

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """A started server; its log is searched for tracebacks at the end."""
    directory = Path(os.environ.get("MODEL", ROOT / ".demo" / "SmolLM2-135M-Instruct-V14"))
    assert directory.is_dir(), f"{directory} is not there: `make e2e` makes it"
    room = tmp_path_factory.mktemp("e2e")
    (room / "memory").mkdir()
    with Server(model_dir=directory, home=room / "memory", log=room / "server.log") as server:
        server.start()
        yield server
        assert server.tracebacks() == 0, server.log_tail()
