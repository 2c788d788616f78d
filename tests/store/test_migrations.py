"""Stores that older packages wrote: read as they are, brought to the present format when a server opens them.

`format1` to `format4` hold what the package of that time wrote; one is kept of each format when the next one comes.
"""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.store.conftest import Opener
from tests.store.making import WEIGHTS, made, same_trace
from v14.errors import StoreError
from v14.store.layout import Layout
from v14.store.schema import CATALOG_VERSION, MIGRATIONS
from v14.store.view import views


@dataclass
class Kept:
    """An old store in `home`; event 1 was recalled at 50, and formats from 2 on also have the namespace `work`."""

    home: Path
    version: int

    @property
    def catalog(self) -> Path:
        return Layout.of(self.home, WEIGHTS).catalog

    @property
    def numbers(self) -> dict[str, list[int]]:
        return {"home": [0, 1, 2]} if self.version == 1 else {"home": [0, 1, 2, 3], "work": [7]}

    def stated(self) -> int:
        with closing(sqlite3.connect(self.catalog)) as connection:
            return connection.execute("PRAGMA user_version").fetchone()[0]


@pytest.fixture(params=[1, 2, 3, 4], ids=["format1", "format2", "format3", "format4"])
def kept(request, tmp_path: Path) -> Kept:
    layout = Layout.of(tmp_path, WEIGHTS)
    layout.make()
    source = Path(__file__).parent / f"format{request.param}"
    for segment in source.glob("*.safetensors"):
        shutil.copy(segment, layout.segments)
    with closing(sqlite3.connect(layout.catalog)) as connection:
        connection.executescript((source / "catalog.sql").read_text())
    return Kept(tmp_path, request.param)


def test_every_older_format_is_kept() -> None:
    assert {path.name for path in Path(__file__).parent.glob("format*")} == {
        f"format{number}" for number in range(1, CATALOG_VERSION)
    }


def test_looking_leaves_the_format(kept: Kept) -> None:
    (view,) = views(kept.home)
    counts = {namespace: len(numbers) for namespace, numbers in kept.numbers.items()}
    assert (view.num_events, view.num_corrupt, view.namespaces) == (sum(counts.values()), 0, counts)
    assert kept.stated() == kept.version


def test_it_is_read_and_written_to(kept: Kept, opened: Opener) -> None:
    store = opened()
    assert kept.stated() == CATALOG_VERSION == 5
    for namespace, numbers in kept.numbers.items():
        assert store.events(namespace) == [made(number, namespace)[0] for number in numbers]
    store.put([made(4)])
    assert store.flush(10)
    for namespace, numbers in kept.numbers.items():
        for number in [*numbers, 4][: 5 if namespace == "home" else 1]:
            event, trace = made(number, namespace)
            assert same_trace(store.trace(namespace, event.id), trace)
    store.close()
    again = opened()
    assert again.verify() == []
    assert again.stats().num_events == 1 + sum(map(len, kept.numbers.values()))
    with closing(sqlite3.connect(kept.catalog)) as catalog:
        sql = "SELECT recalled_at, codec FROM events WHERE said_at = 1"
        assert catalog.execute(sql).fetchall() == [(50.0, "")]
        for table in ("links", "policies", "audit", "keys"):
            assert catalog.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_without_events(kept: Kept, opened: Opener) -> None:
    with closing(sqlite3.connect(kept.catalog)) as connection, connection:
        connection.execute("DELETE FROM events")
    assert opened().stats().num_events == 0
    assert kept.stated() == CATALOG_VERSION


def test_one_that_fails_leaves_the_format_before_it(kept: Kept, opened: Opener, monkeypatch) -> None:
    """Of a script of several statements none is left behind, either."""
    broken = (*MIGRATIONS[:-1], MIGRATIONS[-1] + "; DROP TABLE nowhere")
    monkeypatch.setattr("v14.store.schema.MIGRATIONS", broken)
    with pytest.raises(StoreError, match="no such table"):
        opened()
    monkeypatch.undo()
    assert kept.stated() == CATALOG_VERSION - 1
    assert opened().stats().num_events == sum(map(len, kept.numbers.values()))
