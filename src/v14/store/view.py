"""Looking into the stores below a home directory without taking part: reading only, while a server may write."""

import contextlib
import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from v14.errors import StoreError
from v14.store.catalog import check_version
from v14.store.layout import Layout

COUNTS = "SELECT namespace, count(*), sum(num_tokens) FROM events WHERE corrupt = 0 GROUP BY namespace"
"""Namespace, events, tokens."""

EVENTS = (
    "SELECT namespace, id, chat_id, role, said_at, recalled_at, num_tokens, token_ids FROM events WHERE corrupt = 0"
)
"""What an `EventView` shows."""


@dataclass(frozen=True, kw_only=True)
class StoreView:
    """The store of one set of weights: what its catalog had committed when it was looked at.

    `namespaces` gives the number of events by namespace; `num_bytes` are the bytes of its segment files.
    """

    path: Path | str
    weights_id: str
    num_events: int
    num_tokens: int
    num_bytes: int
    num_corrupt: int
    namespaces: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class EventView:
    """One event without its trace; times are Unix seconds, `recalled_at` 0.0 means never."""

    weights_id: str
    namespace: str
    id: str
    chat_id: str
    role: str
    said_at: float
    recalled_at: float
    num_tokens: int
    token_ids: tuple[int, ...]


def views(home: Path) -> list[StoreView]:
    """Every store below `home`, by path; none if there is no such directory. Raises `StoreError`."""
    found = []
    for layout in _layouts(home):
        with _reading(layout) as (reader, weights_id):
            counts = reader.execute(COUNTS).fetchall()
            (num_corrupt,) = reader.execute("SELECT count(*) FROM events WHERE corrupt = 1").fetchone()
            names = [name for (name,) in reader.execute("SELECT DISTINCT segment FROM events")]
        files = [layout.segment(name) for name in names]
        found.append(
            StoreView(
                path=layout.root,
                weights_id=weights_id,
                num_events=sum(events for _, events, _ in counts),
                num_tokens=sum(tokens for _, _, tokens in counts),
                num_bytes=sum(file.stat().st_size for file in files if file.exists()),
                num_corrupt=num_corrupt,
                namespaces={namespace: events for namespace, events, _ in counts},
            )
        )
    return found


def namespaces_on_disk(home: Path, weights_id: str) -> dict[str, int]:
    """Events by namespace of the store of `weights_id` below `home`; empty where there is none. Raises `StoreError`."""
    layout = Layout.of(home, weights_id)
    if not layout.catalog.is_file():
        return {}
    with _reading(layout) as (reader, _):
        return {namespace: events for namespace, events, _ in reader.execute(COUNTS)}


def events(home: Path, namespace: str | None = None) -> list[EventView]:
    """The events of every store below `home`, of one namespace or all, by `said_at`. Raises `StoreError`."""
    sql = f"{EVENTS} AND (?1 IS NULL OR namespace = ?1)"
    found = []
    for layout in _layouts(home):
        with _reading(layout) as (reader, weights_id):
            found += [event_view(weights_id, row) for row in reader.execute(sql, (namespace,))]
    return sorted(found, key=lambda event: event.said_at)


def event_view(weights_id: str, row: tuple[Any, ...]) -> EventView:
    """From a row of `EVENTS`."""
    namespace, event_id, chat_id, role, said_at, recalled_at, num_tokens, token_ids = row
    return EventView(
        weights_id=weights_id,
        namespace=namespace,
        id=event_id,
        chat_id=chat_id,
        role=role,
        said_at=said_at,
        recalled_at=recalled_at,
        num_tokens=num_tokens,
        token_ids=struct.unpack(f"<{num_tokens}q", token_ids),
    )


def _layouts(home: Path) -> list[Layout]:
    layouts = (Layout(root=path) for path in sorted(home.iterdir())) if home.is_dir() else ()
    return [layout for layout in layouts if layout.catalog.is_file()]


@contextlib.contextmanager
def _reading(layout: Layout) -> Iterator[tuple[sqlite3.Connection, str]]:
    """A read-only connection within one transaction, and the weights id."""
    try:
        reader = sqlite3.connect(f"{layout.catalog.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        with contextlib.closing(reader):
            reader.execute("BEGIN")
            (version,) = reader.execute("PRAGMA user_version").fetchone()
            check_version(layout.catalog, version)
            (weights_id,) = reader.execute("SELECT weights_id FROM store").fetchone()
            yield reader, weights_id
    except sqlite3.Error as error:
        raise StoreError(f"{layout.catalog} cannot be read: {error}") from error
