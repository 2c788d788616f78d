"""One thread (tiny models are fastest on one) and no deadlines: how long an example takes depends on the machine."""

import pytest
import torch
from hypothesis import settings

from tests.counts import LINES
from tests.one_server import OneServer, Served

torch.set_num_threads(1)
settings.register_profile("v14", deadline=None)
settings.load_profile("v14")


HELD = pytest.StashKey[OneServer]()


@pytest.fixture(scope="session")
def one_server(request, tmp_path_factory):
    """See `tests.one_server`."""
    return request.config.stash.setdefault(HELD, OneServer(place=tmp_path_factory.mktemp("served")))


def _served(item):
    """Which server a test asks, if it says so."""
    cases = item.callspec.params.values() if hasattr(item, "callspec") else ()
    named = [*cases, getattr(getattr(item, "module", None), "SERVED", None)]
    return next((case for case in named if isinstance(case, Served)), None)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """A server that the next test does not ask is stopped: it would keep a core busy."""
    held = item.config.stash.get(HELD, None)
    if held is not None and held.served is not None and (nextitem is None or _served(nextitem) != held.served):
        held.stop()


def pytest_terminal_summary(terminalreporter):
    if LINES:
        terminalreporter.section("counts")
        for line in LINES:
            terminalreporter.write_line(line)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Tests of one server stand behind each other, where the first of them stood."""
    first = {}
    places = [first.setdefault(_served(item) or place, place) for place, item in enumerate(items)]
    items[:] = [item for _, item in sorted(zip(places, items, strict=True), key=lambda pair: pair[0])]
