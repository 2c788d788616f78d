from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.contract.places import Embedded, Place
from v14.store.core import CoreStore

Opener = Callable[..., CoreStore]


@pytest.fixture(params=["embedded", pytest.param("shared", marks=pytest.mark.shared)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Both kinds of place, one after the other."""
    if request.param == "shared":
        yield request.getfixturevalue("shared")
    else:
        yield Embedded(tmp_path)


@pytest.fixture
def opened(place: Place) -> Iterator[Opener]:
    """Opens stores at the place, quick to try again, and closes them after the test."""
    stores: list[CoreStore] = []

    def open_store(**options: Any) -> CoreStore:
        stores.append(place.open(**options))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()
