"""The embedded catalog: one SQLite row per event. Its file is `sqlite.py`, its tables are `schema.py`."""

import contextlib
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from v14.errors import StoreError
from v14.store.audit import Record, read_records, write_record
from v14.store.changes import Changed
from v14.store.glance import GLANCED, GlanceRow
from v14.store.links import LinkChange, LinkKey, cut_links, read_links, write_links
from v14.store.pending import Key, Renewal
from v14.store.policies import Policy, read_policies, write_policy
from v14.store.residue import rename_chats
from v14.store.row import Row
from v14.store.sqlite import SqliteFile
from v14.store.vault import StoreKey, read_keys

COLUMNS = ", ".join(field.name for field in fields(Row))
SEGMENTS = (
    "WITH RECURSIVE s (name) AS (SELECT min(segment) FROM events UNION ALL "
    "SELECT (SELECT min(segment) FROM events WHERE segment > s.name) FROM s WHERE s.name IS NOT NULL) "
    "SELECT name FROM s WHERE name IS NOT NULL"
)
"""DISTINCT would walk over every event; this leaps from name to name in the index."""
VALUES = attrgetter(*(field.name for field in fields(Row)))
"""A row's values; `dataclasses.astuple` copies each of them, which takes as long as storing them."""


class Catalog(SqliteFile):
    """Events of one store; see `v14.store.foundation.CatalogContract`. Safe for several threads."""

    def __init__(self, path: Path, weights_id: str, *, fsync: bool = True) -> None:
        """Open or create. Raises `StoreError` or `StoreVersionError`."""
        # Of the last taking out of events, and by namespace: for those who follow, not kept for another process.
        self._number = 1
        self._taken: dict[str, int] = {}
        super().__init__(path, weights_id, fsync=fsync)

    def row(self, key: Key, *, corrupt: bool = False) -> Row | None:
        """The row of an event, or None; of one set aside only where `corrupt`."""
        sql = f"SELECT {COLUMNS} FROM events WHERE namespace = ? AND id = ? AND corrupt <= ?"
        with self._snapshot() as reader:
            return next(_rows(reader.execute(sql, (*key, int(corrupt)))), None)

    def rows(self, namespace: str) -> list[Row]:
        """Rows of a namespace that are not set aside, in the order of their commits."""
        sql = f"SELECT {COLUMNS} FROM events WHERE namespace = ? AND corrupt = 0 ORDER BY rowid"
        with self._snapshot() as reader:
            return list(_rows(reader.execute(sql, (namespace,))))

    def glances(self, namespace: str) -> list[GlanceRow]:
        """A few columns of the same rows, in the same order."""
        sql = f"SELECT {', '.join(GLANCED)} FROM events WHERE namespace = ? AND corrupt = 0 ORDER BY rowid"
        with self._snapshot() as reader:
            return list(map(GlanceRow._make, reader.execute(sql, (namespace,))))

    def all_keys(self) -> list[Key]:
        """Keys of all rows, those set aside included."""
        with self._snapshot() as reader:
            return [(namespace, name) for namespace, name in reader.execute("SELECT namespace, id FROM events")]

    def known(self, keys: Iterable[Key]) -> set[Key]:
        """Those of `keys` that have a row which is not set aside."""
        with self._snapshot() as reader:
            return {key for key in keys if _num_tokens(reader, key) is not None}

    def counts(self, without: Collection[Key]) -> dict[str, tuple[int, int]]:
        """Events and tokens by namespace; rows of the keys `without` are not counted, nor those set aside."""
        sql = "SELECT namespace, count(*), sum(num_tokens) FROM events WHERE corrupt = 0 GROUP BY namespace"
        with self._snapshot() as reader:
            counts = {namespace: (events, tokens) for namespace, events, tokens in reader.execute(sql)}
            for key in without:
                num_tokens = _num_tokens(reader, key)
                if num_tokens is not None:
                    events, tokens = counts[key[0]]
                    counts[key[0]] = events - 1, tokens - num_tokens
        return {namespace: count for namespace, count in counts.items() if count[0]}

    def num_corrupt(self) -> int:
        """Number of events set aside."""
        with self._snapshot() as reader:
            return int(reader.execute("SELECT count(*) FROM events WHERE corrupt = 1").fetchone()[0])

    def segments(self) -> set[str]:
        """Names of the segments that any row names."""
        with self._snapshot() as reader:
            return {name for (name,) in reader.execute(SEGMENTS)}

    def last_segment(self) -> str | None:
        """The last of these names."""
        with self._snapshot() as reader:
            name: str | None = reader.execute("SELECT max(segment) FROM events").fetchone()[0]
            return name

    def changes(self, namespace: str, since: int) -> Changed:
        """Everything for 0; after that, what was taken out by calls of this process, which alone writes."""
        number = self._number
        if since == 0:
            return Changed(number=number, rows=self.rows(namespace))
        if self._taken.get(namespace, 0) <= since:
            return Changed(number=number)
        return Changed(number=number, held=frozenset(row.id for row in self.rows(namespace)))

    def links(self, namespace: str) -> dict[LinkKey, float]:
        """Weights of the links of a namespace."""
        with self._snapshot() as reader:
            return read_links(reader, namespace)

    def policies(self) -> dict[str, Policy]:
        """Policies by namespace; most namespaces have none."""
        with self._snapshot() as reader:
            return read_policies(reader)

    def audit(self) -> list[Record]:
        """The audit record, oldest first."""
        with self._snapshot() as reader:
            return list(read_records(reader))

    def keys(self) -> list[StoreKey]:
        """The store keys, wrapped; empty for a store that is not encrypted."""
        with self._snapshot() as reader:
            return read_keys(reader)

    def set_keys(self, keys: Iterable[StoreKey], *, was: Sequence[StoreKey]) -> None:
        """Replace the store keys `was`. Raises `StoreError`, also where they are others by now."""
        with self._writing, self._errors(), self._transaction():
            if read_keys(self._writer) != list(was):
                raise StoreError(f"{self._path}: the keys of the store were changed meanwhile; try again")
            self._writer.execute("DELETE FROM keys")
            self._writer.executemany("INSERT INTO keys VALUES (?, ?, ?)", (astuple(key) for key in keys))

    def commit(
        self, rows: Iterable[Row], renewals: Mapping[Key, Renewal], links: Mapping[LinkKey, LinkChange] | None = None
    ) -> None:
        """Insert rows, renew times, change links, all in one transaction. Raises `StoreError`.

        A row of the same key (one set aside, or one whose commit reported an error and came true) is replaced.
        """
        insert = f"INSERT OR REPLACE INTO events ({COLUMNS}) VALUES ({', '.join('?' * len(fields(Row)))})"
        renew = (
            "UPDATE events SET said_at = max(said_at, ?), recalled_at = max(recalled_at, ?) "
            "WHERE namespace = ? AND id = ?"
        )
        with self._writing, self._errors(), self._transaction():
            self._writer.executemany(insert, map(VALUES, rows))
            self._writer.executemany(renew, ((r.said_at, r.recalled_at, *key) for key, r in renewals.items()))
            write_links(self._writer, links or {})

    def forget(self, keys: Collection[Key], moved: Iterable[Row], records: Iterable[Record]) -> None:
        """Delete rows and their links, and note it in the audit, in one transaction. Raises `StoreError`.

        `moved` are rows that name another segment now, or are set aside. A chat whose id is that of a deleted event
        gets another one: such an id is a hash of what is to be forgotten.
        """
        move = "UPDATE events SET segment = ?, corrupt = ? WHERE namespace = ? AND id = ?"
        with self._writing, self._errors(), self._transaction():
            self._writer.executemany("DELETE FROM events WHERE namespace = ? AND id = ?", keys)
            cut_links(self._writer, keys)
            self._writer.executemany(move, ((row.segment, row.corrupt, *row.key) for row in moved))
            rename_chats(self._writer, keys)
            for record in records:
                write_record(self._writer, record)
        self._took(namespace for namespace, _ in keys)

    def erasing(self) -> contextlib.AbstractContextManager[None]:
        """Nothing to keep out: one process writes, and erases on one thread."""
        return contextlib.nullcontext()

    def select(self, namespace: str, until: float) -> dict[str, float]:
        """`said_at` by id of rows last said before `until`, set aside or not."""
        sql = "SELECT id, said_at FROM events WHERE namespace = ? AND said_at < ?"
        with self._snapshot() as reader:
            return dict(reader.execute(sql, (namespace, until)))

    def in_segment(self, segment: str) -> list[Row]:
        """All rows whose traces lie in a segment, those set aside included."""
        with self._snapshot() as reader:
            return list(_rows(reader.execute(f"SELECT {COLUMNS} FROM events WHERE segment = ?", (segment,))))

    def least_asked(self, namespace: str | None, max_rows: int = -1) -> list[Row]:
        """Rows of a namespace or of all, those first that were neither said nor recalled for the longest."""
        sql = (
            f"SELECT {COLUMNS} FROM events WHERE ?1 IS NULL OR namespace = ?1 "
            "ORDER BY max(said_at, recalled_at), rowid LIMIT ?2"
        )
        with self._walking() as writer:
            return list(_rows(writer.execute(sql, (namespace, max_rows))))

    def rewritable(self, idle_before: float, idle_form: str, *, unsealed: bool) -> set[str]:
        """Segments with events that were neither said nor recalled since `idle_before` and are not in `idle_form`, or
        with `unsealed` ones. Traces of which only voters' keys were kept stay in their form."""
        sql = (
            "SELECT DISTINCT segment FROM events WHERE max(said_at, recalled_at) < ?1 AND codec <> ?2 "
            "AND codec NOT LIKE '%only=%' OR ?3 AND codec NOT LIKE '%+aesgcm'"
        )
        with self._walking() as writer:
            return {name for (name,) in writer.execute(sql, (idle_before, idle_form, unsealed))}

    def move(self, rows: Iterable[Row], *, was: Mapping[Key, str]) -> None:
        """Let rows name traces that were written anew, in one transaction. Raises `StoreError`.

        `was` has the segments that they name now; where another one is named meanwhile, nothing is done.
        """
        sql = (
            "UPDATE events SET segment = ?, dtype = ?, shape = ?, digests = ?, engram = ?, codec = ?, token_ids = ?, "
            "chat_id = ? WHERE namespace = ? AND id = ? AND segment = ?"
        )
        with self._writing, self._errors(), self._transaction():
            for row in rows:
                new = (
                    row.segment,
                    row.dtype,
                    row.shape,
                    row.digests,
                    row.engram,
                    row.codec,
                    row.token_ids,
                    row.chat_id,
                )
                if self._writer.execute(sql, (*new, *row.key, was[row.key])).rowcount != 1:
                    raise StoreError(f"{self._path}: event {row.id} was moved or forgotten meanwhile; try again")

    def scrub(self, needles: Collection[bytes] | None) -> None:
        """Leave no copy of what was deleted in the catalog's files. Raises `StoreError`, also where another reads.

        `needles` are what must not be found any more; without them everything that was deleted is.
        """
        with self._writing, self._reading, self._errors():
            self._residue.remove(self._writer, needles)
            self._renew()

    def look(self, max_pages: int) -> bool:
        """Look for copies of what was deleted ahead of the next `scrub`, which is quick then; whether pages are left.

        Raises `StoreError`.
        """
        with self._writing, self._errors():
            return self._residue.look(max_pages)

    def finish(self, at: float) -> None:
        """Note in the audit that what was forgotten so far is gone from the files. Raises `StoreError`."""
        with self._writing, self._errors(), self._transaction():
            self._writer.execute("UPDATE audit SET finished_at = ? WHERE finished_at = 0", (at,))

    def finished(self) -> bool:
        """Whether what was forgotten is gone from the files."""
        with self._snapshot() as reader:
            return not reader.execute("SELECT EXISTS (SELECT 1 FROM audit WHERE finished_at = 0)").fetchone()[0]

    def set_policy(self, namespace: str, policy: Policy) -> None:
        """Replace the policy of a namespace. Raises `StoreError`."""
        with self._writing, self._errors(), self._transaction():
            write_policy(self._writer, namespace, policy)

    def mark(self, row: Row, *, corrupt: bool) -> None:
        """Set an event aside or take it back, unless it was stored anew meanwhile. Raises `StoreError`."""
        sql = "UPDATE events SET corrupt = ? WHERE namespace = ? AND id = ? AND segment = ?"
        with self._writing, self._errors(), self._transaction():
            self._writer.execute(sql, (int(corrupt), *row.key, row.segment))
        if corrupt:
            self._took([row.namespace])

    def _took(self, namespaces: Iterable[str]) -> None:
        """Something was taken out; `changes` finds it under the number that it is asked for next."""
        number = self._number + 1
        self._taken.update(dict.fromkeys(namespaces, number))
        self._number = number


def _rows(cursor: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
    names = [field.name for field in fields(Row)]
    for values in cursor:
        yield Row(**dict(zip(names, values, strict=True)))


def _num_tokens(reader: sqlite3.Connection, key: Key) -> int | None:
    found = reader.execute(
        "SELECT num_tokens FROM events WHERE namespace = ? AND id = ? AND corrupt = 0", key
    ).fetchone()
    return None if found is None else int(found[0])
