"""Looking into the stores below a home directory without taking part: reading only, while a server may write."""

import contextlib
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from v14.codecs.form import Form
from v14.errors import StoreError, TraceCorruptError
from v14.store.audit import Record, read_records
from v14.store.layout import Layout
from v14.store.policies import Policy, read_policies
from v14.store.row import opened
from v14.store.schema import check_version
from v14.store.seal import MasterKey
from v14.store.vault import Vault, read_keys

COUNTS = "SELECT namespace, count(*), sum(num_tokens) FROM events WHERE corrupt = 0 GROUP BY namespace"
"""Namespace, events, tokens."""

_SHOWN = "namespace, id, chat_id, role, said_at, recalled_at, num_tokens, token_ids"
EVENTS = f"SELECT {_SHOWN}, codec FROM events WHERE corrupt = 0"
"""What an `EventView` shows."""
PLAIN_EVENTS = f"SELECT {_SHOWN} FROM events WHERE corrupt = 0"
"""The same of formats 1 to 3, which know no encryption."""
FORMS = "SELECT codec, count(*) FROM events WHERE corrupt = 0 GROUP BY codec"
"""Form, events."""


@dataclass(frozen=True, kw_only=True)
class StoreView:
    """The store of one set of weights: what its catalog had committed when it was looked at.

    `namespaces` gives the number of events by namespace; `num_bytes` are the bytes of its segment files. `forms` gives
    the number of events by how their traces lie there (`v14.codecs.form`); `key` is the id of the key that it is
    encrypted with, empty for none.
    """

    path: Path | str
    weights_id: str
    num_events: int
    num_tokens: int
    num_bytes: int
    num_corrupt: int
    namespaces: dict[str, int]
    forms: dict[str, int]
    key: str

    @property
    def bytes_per_token(self) -> float:
        """Bytes of segments for each token; 0 for an empty store."""
        return self.num_bytes / self.num_tokens if self.num_tokens else 0.0

    @property
    def bytes_per_event(self) -> float:
        """Bytes of segments for each event; 0 for an empty store."""
        return self.num_bytes / self.num_events if self.num_events else 0.0


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
        with reading(layout) as (reader, weights_id):
            counts = reader.execute(COUNTS).fetchall()
            (num_corrupt,) = reader.execute("SELECT count(*) FROM events WHERE corrupt = 1").fetchone()
            names = [name for (name,) in reader.execute("SELECT DISTINCT segment FROM events")]
            forms = dict(reader.execute(FORMS).fetchall()) if _has(reader, "keys") else {}
            keys = read_keys(reader) if _has(reader, "keys") else []
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
                forms=form_names(forms),
                key=keys[-1].master if keys else "",
            )
        )
    return found


def namespaces_on_disk(home: Path, weights_id: str) -> dict[str, int]:
    """Events by namespace of the store of `weights_id` below `home`; empty where there is none. Raises `StoreError`."""
    layout = Layout.of(home, weights_id)
    if not layout.catalog.is_file():
        return {}
    with reading(layout) as (reader, _):
        return {namespace: events for namespace, events, _ in reader.execute(COUNTS)}


def events(home: Path, namespace: str | None = None, master: MasterKey | None = None) -> list[EventView]:
    """The events of every store below `home`, of one namespace or all, by `said_at`.

    Raises `StoreError`, and `StoreKeyError` for a store that is encrypted with another key than `master`.
    """
    found = []
    for layout in _layouts(home):
        with reading(layout) as (reader, weights_id):
            is_new = _has(reader, "keys")
            vault = Vault.open(weights_id, read_keys(reader), master) if is_new else None
            sql = f"{EVENTS if is_new else PLAIN_EVENTS} AND (?1 IS NULL OR namespace = ?1)"
            found += [event_view(weights_id, row, vault) for row in reader.execute(sql, (namespace,))]
    return sorted(found, key=lambda event: event.said_at)


def check_key(home: Path, weights_id: str, master: MasterKey | None) -> None:
    """Raise `StoreKeyError` where the store of `weights_id` below `home` is encrypted with another key."""
    layout = Layout.of(home, weights_id)
    if layout.catalog.is_file() and layout.catalog.stat().st_size:
        with reading(layout) as (reader, stated):
            if _has(reader, "keys"):
                Vault.open(stated, read_keys(reader), master)


def policies(home: Path) -> dict[str, dict[str, Policy]]:
    """Policies by namespace, by weights id. Raises `StoreError`."""
    return {weights_id: read_policies(reader) if kept else {} for weights_id, reader, kept in _third(home)}


def audits(home: Path) -> dict[str, list[Record]]:
    """The audit record, oldest first, by weights id. Raises `StoreError`."""
    return {weights_id: list(read_records(reader)) if kept else [] for weights_id, reader, kept in _third(home)}


def _third(home: Path) -> Iterator[tuple[str, sqlite3.Connection, bool]]:
    """Weights id and connection of every store, and whether its format has policies and audit, as from the third on."""
    for layout in _layouts(home):
        with reading(layout) as (reader, weights_id):
            yield weights_id, reader, _has(reader, "audit")


def event_view(weights_id: str, row: tuple[Any, ...], vault: Vault | None = None) -> EventView:
    """From a row of `EVENTS` or `PLAIN_EVENTS`. Raises `StoreError` where it cannot be one."""
    namespace, event_id, chat_id, role, said_at, recalled_at, num_tokens, token_ids, *codec = row
    try:
        if codec and Form.parse(codec[0]).sealed:
            token_ids, chat_id = opened(vault, (namespace, event_id), bytes(token_ids), chat_id)
        tokens = struct.unpack(f"<{num_tokens}q", token_ids)
    except (struct.error, TypeError, TraceCorruptError) as error:
        raise StoreError(f"the row of event {event_id} is damaged ({error}); `verify` sets it aside") from error
    return EventView(
        weights_id=weights_id,
        namespace=namespace,
        id=event_id,
        chat_id=chat_id,
        role=role,
        said_at=said_at,
        recalled_at=recalled_at,
        num_tokens=num_tokens,
        token_ids=tokens,
    )


def form_names(counts: dict[str, int]) -> dict[str, int]:
    """Events by what their form says to people: slots of voters are left out."""
    found: Counter[str] = Counter()
    for text, number in counts.items():
        name, _, sealed = text.partition("+")
        parts = [part.partition("=")[0] for part in name.split(";")]
        words = [parts[0] or "native", *(["voters only"] if "only" in parts else []), *([sealed] if sealed else [])]
        found[", ".join(words)] += number
    return dict(found)


def _has(reader: sqlite3.Connection, table: str) -> bool:
    return reader.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None


def _layouts(home: Path) -> list[Layout]:
    layouts = (Layout(root=path) for path in sorted(home.iterdir())) if home.is_dir() else ()
    return [layout for layout in layouts if layout.catalog.is_file()]


@contextlib.contextmanager
def reading(layout: Layout) -> Iterator[tuple[sqlite3.Connection, str]]:
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
        raise StoreError(
            f"{layout.catalog} cannot be read ({error}); check its owner and the disk, `v14 doctor` helps"
        ) from error
