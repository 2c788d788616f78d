from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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
