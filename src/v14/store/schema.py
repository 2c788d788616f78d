"""The tables of the embedded catalog, and the way to the newest format from each older one."""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from v14.errors import StoreVersionError
from v14.store.audit import AUDIT
from v14.store.layout import HOME_VARIABLE
from v14.store.links import LINKS
from v14.store.policies import POLICIES
from v14.store.vault import KEYS

SCHEMA = """
CREATE TABLE store (version INTEGER NOT NULL, weights_id TEXT NOT NULL);
CREATE TABLE events (
    namespace TEXT NOT NULL, id TEXT NOT NULL, parent TEXT NOT NULL, chat_id TEXT NOT NULL, role TEXT NOT NULL,
    said_at REAL NOT NULL, token_ids BLOB NOT NULL, num_tokens INTEGER NOT NULL, closing_len INTEGER NOT NULL,
    segment TEXT NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL, digests BLOB NOT NULL,
    stored_at REAL NOT NULL, recalled_at REAL NOT NULL, corrupt INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
);
CREATE INDEX events_counted ON events (namespace, corrupt, num_tokens, id);
CREATE INDEX events_segment ON events (segment);
"""
"""Format 1, which every catalog begins with."""

MIGRATIONS = (
    "ALTER TABLE events ADD COLUMN engram TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE events ADD COLUMN codec TEXT NOT NULL DEFAULT '';"
    "CREATE INDEX events_said ON events (namespace, said_at);"
    f"{LINKS}; {POLICIES}; {AUDIT}",
    KEYS,
    "CREATE INDEX events_chat ON events (namespace, chat_id)",
)
"""Script i leads from format i + 1 to the next. None is ever changed or taken out."""

CATALOG_VERSION = 1 + len(MIGRATIONS)

Transaction = Callable[[], AbstractContextManager[None]]


def bring_up(writer: sqlite3.Connection, path: Path, weights_id: str, transaction: Transaction) -> None:
    """Make the tables of a new catalog, or bring an older one to the newest format, each step in a `transaction`.

    Raises `StoreVersionError` for a format that this package does not know and for a catalog of other weights.
    """
    (version,) = writer.execute("PRAGMA user_version").fetchone()
    if not num_tables(writer):
        version = 1
        with transaction():
            _run(writer, SCHEMA)
            writer.execute("INSERT INTO store VALUES (?, ?)", (version, weights_id))
            writer.execute(f"PRAGMA user_version = {version}")
    stated = writer.execute("SELECT version, weights_id FROM store").fetchall()
    if stated != [(version, weights_id)]:
        raise StoreVersionError(
            f"{path} says format and weights {stated}, expected {version} and {weights_id}. "
            f"Put the store back under its own name, or set {HOME_VARIABLE} to another directory."
        )
    for number, script in enumerate(MIGRATIONS[version - 1 :], start=version + 1):
        with transaction():
            _run(writer, script)
            writer.execute("UPDATE store SET version = ?", (number,))
            writer.execute(f"PRAGMA user_version = {number}")


def check_known(writer: sqlite3.Connection, path: Path) -> None:
    """Raise `StoreVersionError` for a catalog, not a new one, of a format that this package does not know."""
    (version,) = writer.execute("PRAGMA user_version").fetchone()
    if num_tables(writer):
        check_version(path, version)


def check_version(path: Path, version: int) -> None:
    """Raise `StoreVersionError` for a catalog of a format that this package does not know."""
    if not 1 <= version <= CATALOG_VERSION:
        raise StoreVersionError(
            f"{path} has format {version}, this package reads 1 to {CATALOG_VERSION}. "
            f"Use the package version that wrote it, or set {HOME_VARIABLE} to another directory."
        )


def num_tables(connection: sqlite3.Connection) -> int:
    """How many tables and indexes there are; none in a new file."""
    return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def _run(writer: sqlite3.Connection, script: str) -> None:
    """The statements of a script within the transaction (`executescript` would commit it)."""
    for statement in filter(str.strip, script.split(";")):
        writer.execute(statement)
