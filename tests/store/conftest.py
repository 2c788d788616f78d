from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.shared_servers import CREDENTIALS, Postgres, missing, object_server, postgres_server
from tests.store.contract.places import Shared
from tests.store.making import WEIGHTS
from v14.store.directory import DirectoryStore

Opener = Callable[..., DirectoryStore]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Opens stores under `tmp_path`, quick to try again, and closes them after the test."""
    stores = []

    def open_store(**options: Any) -> DirectoryStore:
        store = DirectoryStore.open(tmp_path, WEIGHTS, **({"retry_s": 0.01} | options))
        stores.append(store)
        return store

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture(scope="session")
def servers() -> Iterator[tuple[Postgres, int]]:
    """A PostgreSQL server and the port of an S3 server, for all tests."""
    if reason := missing():
        pytest.skip(f"no shared store here: {reason}")
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield stack.enter_context(postgres_server()), stack.enter_context(object_server())


@pytest.fixture
def shared(servers: tuple[Postgres, int]) -> Iterator[Shared]:
    """A new shared store's place."""
    place = Shared(servers[0].port, servers[1])
    yield place
    place.close()
