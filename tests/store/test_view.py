"""Looking into a store from outside: versions are checked, files that are no store are passed over."""

import sqlite3

import pytest
import torch

from v14.errors import StoreError, StoreVersionError
from v14.store.directory import DirectoryStore
from v14.store.view import events, views
from v14.types import Event, Trace

WEIGHTS = "sha256:" + "b" * 64


@pytest.fixture
def home(tmp_path):
    store = DirectoryStore.open(tmp_path, WEIGHTS)
    event = Event(namespace="n", chat_id="c", role="user", said_at=1.0, token_ids=(5, 6))
    store.put([(event, Trace(keys=torch.zeros(1, 2, 1, 2), values=torch.zeros(1, 2, 1, 2)))])
    store.close()
    return tmp_path


def catalog(home):
    return next(home.glob("*/catalog.sqlite3"))


def test_view_agrees_with_the_store(home):
    (view,) = views(home)
    store = DirectoryStore.open(home, WEIGHTS)
    stats = store.stats()
    store.close()
    assert (view.num_events, view.num_tokens, view.num_bytes, view.num_corrupt) == (
        stats.num_events, stats.num_tokens, stats.num_bytes, 0,
    )  # fmt: skip
    assert [event.token_ids for event in events(home)] == [(5, 6)]


def test_another_format_is_named(home):
    connection = sqlite3.connect(catalog(home))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreVersionError, match="format 99"):
        views(home)


def test_no_catalog_is_named(home):
    catalog(home).write_bytes(b"not a database, and long enough to be looked at" * 100)
    with pytest.raises(StoreError, match=r"catalog\.sqlite3"):
        events(home)


def test_other_files_are_passed_over(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "file").write_text("")
    assert views(tmp_path) == events(tmp_path) == []
