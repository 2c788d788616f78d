"""The shared catalog: what `v14.store.foundation.CatalogContract` promises, in PostgreSQL, for several writers.

Who puts an event that another writer put first adds its times and nothing else: the first trace stays.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, fields
from typing import Any

from psycopg import sql
from psycopg.rows import TupleRow

from v14.errors import StoreError, StoreUnavailableError
from v14.store.audit import Record, namespace_digest
from v14.store.changes import Changed
from v14.store.glance import GLANCED, GlanceRow
from v14.store.links import LinkChange, LinkKey
from v14.store.pending import Key, Renewal
from v14.store.policies import Policy
from v14.store.row import Row
from v14.store.shared.connection import Plain, Wire
from v14.store.shared.listener import Latest, payload
from v14.store.shared.statements import (
    COLUMNS,
    KEYS,
    NAMES,
    asked,
    columns,
    cut_links,
    doom_unnamed,
    hold,
    insert,
    next_number,
    rename_chats,
    replace_keys,
    select_rows,
    stored_keys,
    write_links,
)  # fmt: skip
from v14.store.vault import StoreKey

LOCK, UNLOCK = (f"SELECT pg_advisory_{word}(hashtextextended(%s, 15))".encode() for word in ("lock", "unlock"))


class SharedCatalog:
    """Rows of one schema: one connection for reading, one for writing."""

    def __init__(self, reader: Wire, writer: Wire, latest: Latest, channel: str) -> None:
        """`latest` says what changed since when, as far as it was told; changes made here are told on `channel`."""
        self._reader, self._writer, self._latest, self._channel = reader, writer, latest, channel
        self._erasing_on: Plain | None = None

    def row(self, key: Key, *, corrupt: bool = False) -> Row | None:
        """The row of an event, or None; of one set aside only where `corrupt`."""
        found = self._rows("namespace = %s AND id = %s AND corrupt <= %s", (*key, int(corrupt)))
        return found[0] if found else None

    def rows(self, namespace: str) -> list[Row]:
        """Rows of a namespace that are not set aside, in the order of their commits."""
        return self._rows("namespace = %s AND corrupt = 0 ORDER BY position", (namespace,))

    def glances(self, namespace: str) -> list[GlanceRow]:
        """A few columns of the same rows, in the same order."""
        query = sql.SQL("SELECT {} FROM events WHERE namespace = %s AND corrupt = 0 ORDER BY position")
        return list(map(GlanceRow._make, self._read(query.format(columns(GLANCED)), (namespace,))))

    def all_keys(self) -> list[Key]:
        """Keys of all rows, those set aside included."""
        return [(namespace, event_id) for namespace, event_id in self._read("SELECT namespace, id FROM events")]

    def known(self, keys: Iterable[Key]) -> set[Key]:
        """Those of `keys` that have a row which is not set aside."""
        query = sql.SQL("SELECT namespace, id FROM events JOIN ({}) AS k USING (namespace, id) WHERE corrupt = 0")
        return {(namespace, event_id) for namespace, event_id in self._read(query.format(KEYS), asked(keys))}

    def counts(self, without: Collection[Key]) -> dict[str, tuple[int, int]]:
        """Events and tokens by namespace; rows of the keys `without` are not counted, nor those set aside."""
        query = sql.SQL(
            "SELECT namespace, count(*), sum(num_tokens) FROM events "
            "WHERE corrupt = 0 AND (namespace, id) NOT IN ({}) GROUP BY namespace"
        ).format(KEYS)
        return {namespace: (events, int(tokens)) for namespace, events, tokens in self._read(query, asked(without))}

    def num_corrupt(self) -> int:
        """Number of events set aside."""
        return int(self._read("SELECT count(*) FROM events WHERE corrupt = 1")[0][0])

    def segments(self) -> set[str]:
        """Names of the segments that any row names."""
        return {name for (name,) in self._read("SELECT DISTINCT segment FROM events")}

    def segment_bytes(self) -> int:
        """Bytes of all segments that rows name."""
        return int(self._read("SELECT coalesce(sum(num_bytes), 0) FROM segments WHERE state = 'held'")[0][0])

    def links(self, namespace: str) -> dict[LinkKey, float]:
        """Weights of the links of a namespace."""
        found = self._read("SELECT source, target, kind, weight FROM links WHERE namespace = %s", (namespace,))
        return {(namespace, source, target, kind): weight for source, target, kind, weight in found}

    def policies(self) -> dict[str, Policy]:
        """Policies by namespace; most namespaces have none."""
        found = self._read("SELECT namespace, ttl_s, max_bytes FROM policies ORDER BY namespace")
        return {namespace: Policy(ttl_s=ttl_s, max_bytes=max_bytes) for namespace, ttl_s, max_bytes in found}

    def keys(self) -> list[StoreKey]:
        """The store keys, wrapped, by number; empty for a store that is not encrypted."""
        return self._reader.run(stored_keys, again=True)

    def set_keys(self, keys: Iterable[StoreKey], *, was: Sequence[StoreKey]) -> None:
        """Replace the store keys `was`. Raises `StoreError`, also where they are others by now."""

        def work(connection: Plain) -> None:
            with connection.transaction():
                next_number(connection)
                if stored_keys(connection) != list(was):
                    raise StoreError("the keys of the store were changed meanwhile; try again")
                replace_keys(connection, keys)

        self._writer.run(work)

    def audit(self) -> list[Record]:
        """The audit record, oldest first."""
        names = [field.name for field in fields(Record)]
        query = sql.SQL("SELECT {} FROM audit ORDER BY position").format(columns(names))
        return [Record(**dict(zip(names, values, strict=True))) for values in self._read(query)]

    def changes(self, namespace: str, since: int) -> Changed:
        """What other calls of any server changed in a namespace after commit `since`; 0 is before everything.

        Costs nothing where the listener knows of no change.
        """
        if since and self._latest.is_unchanged(namespace, since):
            return Changed(number=since)

        def work(connection: Plain) -> Changed:
            # The number first: what is committed between the two statements is then told twice, never not at all.
            ((number,),) = connection.execute("SELECT commits FROM store").fetchall()
            where = "namespace = %s AND corrupt = 0 AND commit_no > %s ORDER BY position"
            rows = select_rows(connection, where, (namespace, since))
            digest = namespace_digest(namespace)
            taken = connection.execute("SELECT 1 FROM marks WHERE digest = %s AND removed > %s", (digest, since))
            held = None
            if since and taken.fetchone():
                ids = connection.execute("SELECT id FROM events WHERE namespace = %s AND corrupt = 0", (namespace,))
                held = frozenset(event_id for (event_id,) in ids)
            return Changed(number=number, rows=rows, held=held)

        return self._reader.run(work, again=True)

    def announce(self, segment: str, num_bytes: int) -> None:
        """Note that a segment is about to be written, so that it is deleted should its rows never come."""
        query = "INSERT INTO segments (name, state, num_bytes) VALUES (%s, 'written', %s)"
        self._writer.run(lambda connection: connection.execute(query, (segment, num_bytes)), again=True)

    def commit(
        self, rows: Iterable[Row], renewals: Mapping[Key, Renewal], links: Mapping[LinkKey, LinkChange] | None = None
    ) -> None:
        """Insert rows, renew times, change links, all in one transaction. Raises `StoreError`."""
        rows, links = list(rows), links or {}
        self._writer.run(lambda connection: self._commit(connection, rows, renewals, links))

    def _commit(
        self, connection: Plain, rows: Sequence[Row], renewals: Mapping[Key, Renewal],
        links: Mapping[LinkKey, LinkChange],
    ) -> None:  # fmt: skip
        with connection.transaction(), connection.cursor() as cursor:
            number = next_number(connection)
            hold(connection, {row.segment for row in rows})
            cursor.executemany(
                "DELETE FROM events WHERE namespace = %s AND id = %s AND corrupt = 1", [row.key for row in rows]
            )
            insert = sql.SQL(
                "INSERT INTO events ({}, commit_no) VALUES ({}) ON CONFLICT (namespace, id) DO UPDATE SET "
                "said_at = greatest(events.said_at, excluded.said_at), "
                "recalled_at = greatest(events.recalled_at, excluded.recalled_at)"
            ).format(COLUMNS, sql.SQL(", ").join([sql.Placeholder()] * (len(NAMES) + 1)))
            cursor.executemany(insert, [(*astuple(row), number) for row in rows])
            cursor.executemany(
                "UPDATE events SET said_at = greatest(said_at, %s), recalled_at = greatest(recalled_at, %s) "
                "WHERE namespace = %s AND id = %s",
                [(renewal.said_at, renewal.recalled_at, *key) for key, renewal in renewals.items()],
            )
            write_links(connection, links)
            self._tell(connection, number, {row.namespace for row in rows} | {key[0] for key in links})

    def forget(self, keys: Collection[Key], moved: Iterable[Row], records: Iterable[Record]) -> None:
        """Delete rows and their links, update `segment` and `corrupt` of `moved` rows, note it, in one transaction.

        The segments that held them are doomed. Only within `erasing`. Raises `StoreError`.
        """
        keys, moved, records = list(keys), list(moved), list(records)
        self._writer.run(lambda connection: self._forget(connection, keys, moved, records))

    def _forget(self, connection: Plain, keys: Sequence[Key], moved: Sequence[Row], records: Sequence[Record]) -> None:
        if connection is not self._erasing_on:
            raise StoreUnavailableError("nothing was forgotten: the connection to the catalog was lost; forget again")
        with connection.transaction(), connection.cursor() as cursor:
            number = next_number(connection)
            hold(connection, {row.segment for row in moved if not row.corrupt})
            query = sql.SQL(
                "DELETE FROM events USING ({}) AS k WHERE (events.namespace, events.id) = (k.namespace, k.id)"
            )
            connection.execute(query.format(KEYS), asked(keys))
            cut_links(connection, keys)
            for row in moved:
                cursor.execute(
                    "UPDATE events SET segment = %s, corrupt = %s WHERE namespace = %s AND id = %s",
                    (row.segment, row.corrupt, *row.key),
                )
            doom_unnamed(connection)
            rename_chats(connection, keys)
            for record in records:
                insert(connection, "audit", record)
            self._tell(connection, number, {namespace for namespace, _ in keys}, removing=True)

    def least_asked(self, namespace: str | None, max_rows: int = -1) -> list[Row]:
        """Rows of a namespace or of all, those first that were neither said nor recalled for the longest."""
        where = "(%s::text IS NULL OR namespace = %s) ORDER BY greatest(said_at, recalled_at), position LIMIT %s"
        return self._rows(where, (namespace, namespace, None if max_rows < 0 else max_rows))

    def rewritable(self, idle_before: float, idle_form: str, *, unsealed: bool) -> set[str]:
        """Segments with idle events in another form, or with `unsealed` ones."""
        query = (
            "SELECT DISTINCT segment FROM events WHERE greatest(said_at, recalled_at) < %s AND codec <> %s "
            "AND strpos(codec, 'only=') = 0 OR %s AND strpos(codec, '+aesgcm') = 0"
        )
        return {name for (name,) in self._read(query, (idle_before, idle_form, unsealed))}

    def move(self, rows: Iterable[Row], *, was: Mapping[Key, str]) -> None:
        """Let rows name traces that were written anew. Only within `erasing`. Raises `StoreError`."""
        rows = list(rows)
        self._writer.run(lambda connection: self._move(connection, rows, was))

    def _move(self, connection: Plain, rows: Sequence[Row], was: Mapping[Key, str]) -> None:
        if connection is not self._erasing_on:
            raise StoreUnavailableError(
                "nothing was rewritten: the connection to the catalog was lost; it is tried again"
            )
        names = ("segment", "dtype", "shape", "digests", "engram", "codec", "token_ids", "chat_id")
        move = sql.SQL("UPDATE events SET ({}) = ({}) WHERE namespace = %s AND id = %s AND segment = %s").format(
            columns(names), sql.SQL(", ").join([sql.Placeholder()] * len(names))
        )
        with connection.transaction(), connection.cursor() as cursor:
            next_number(connection)
            hold(connection, {row.segment for row in rows})
            for row in rows:
                cursor.execute(move, (*(getattr(row, name) for name in names), *row.key, was[row.key]))
                if cursor.rowcount != 1:
                    raise StoreError(f"event {row.id} was moved meanwhile; it is tried again")
            doom_unnamed(connection)

    @contextmanager
    def erasing(self) -> Iterator[None]:
        """One server erases at a time: two that write a segment anew at once would each keep what the other erases.

        The lock is the connection's, and lost with it; then `forget` refuses.
        """

        def lock(connection: Plain) -> Plain:
            connection.execute(LOCK, (self._channel,))
            return connection

        self._erasing_on = self._writer.run(lock, again=True)
        try:
            yield
        finally:
            connection, self._erasing_on = self._erasing_on, None
            with suppress(StoreError):
                self._writer.run(lambda now: now.execute(UNLOCK, (self._channel,)) if now is connection else None)

    def select(self, namespace: str, until: float) -> dict[str, float]:
        """`said_at` by id of rows last said before `until`, set aside or not."""
        query = "SELECT id, said_at FROM events WHERE namespace = %s AND said_at < %s"
        return dict(self._read(query, (namespace, until)))

    def in_segment(self, segment: str) -> list[Row]:
        """All rows whose traces lie in a segment, those set aside included."""
        return self._rows("segment = %s", (segment,))

    def scrub(self, needles: Collection[bytes] | None) -> None:
        """Nothing that PostgreSQL deleted can be read through it; old row versions and its log are its operator's."""

    def finish(self, at: float) -> None:
        """Note in the audit that what was forgotten so far is gone. Raises `StoreError`."""
        query = "UPDATE audit SET finished_at = %s WHERE finished_at = 0"
        self._writer.run(lambda connection: connection.execute(query, (at,)))

    def finished(self) -> bool:
        """Whether every record has a `finished_at`."""
        return not self._read("SELECT EXISTS (SELECT 1 FROM audit WHERE finished_at = 0)")[0][0]

    def set_policy(self, namespace: str, policy: Policy) -> None:
        """Replace the policy of a namespace; one without limits removes it. Raises `StoreError`."""

        def work(connection: Plain) -> None:
            with connection.transaction():
                connection.execute("DELETE FROM policies WHERE namespace = %s", (namespace,))
                if policy != Policy():
                    values = (namespace, policy.ttl_s, policy.max_bytes)
                    connection.execute("INSERT INTO policies VALUES (%s, %s, %s)", values)

        self._writer.run(work)

    def mark(self, row: Row, *, corrupt: bool) -> None:
        """Set an event aside or take it back, unless it was stored anew meanwhile. Raises `StoreError`."""

        def work(connection: Plain) -> None:
            with connection.transaction():
                number = next_number(connection)
                connection.execute(
                    "UPDATE events SET corrupt = %s, commit_no = %s WHERE namespace = %s AND id = %s AND segment = %s",
                    (int(corrupt), number, *row.key, row.segment),
                )
                self._tell(connection, number, {row.namespace}, removing=corrupt)

        self._writer.run(work)

    def doomed(self, grace_s: float) -> list[str]:
        """Names of segments to delete: of forgotten events, and announced over `grace_s` seconds ago without rows.

        A writer whose announced segment is doomed cannot commit it any more, however long it was stopped.
        """

        def work(connection: Plain) -> list[str]:
            with connection.transaction():
                late = "state = 'written' AND at < now() - make_interval(secs => %s)"
                connection.execute(f"UPDATE segments SET state = 'doomed' WHERE {late}".encode(), (grace_s,))
                doom_unnamed(connection)
                return [name for (name,) in connection.execute("SELECT name FROM segments WHERE state = 'doomed'")]

        return self._writer.run(work)

    def deleted(self, names: Sequence[str]) -> None:
        """Note that doomed segments are gone."""
        query = "DELETE FROM segments WHERE state = 'doomed' AND name = ANY(%s)"
        self._writer.run(lambda connection: connection.execute(query, (list(names),)))

    def recorded(self) -> set[str]:
        """Names of all segments that are held, announced or doomed."""
        return {name for (name,) in self._read("SELECT name FROM segments")}

    def close(self) -> None:
        """Close both connections; further calls raise `StoreError`."""
        self._reader.close()
        self._writer.close()

    def _tell(self, connection: Plain, number: int, namespaces: Collection[str], *, removing: bool = False) -> None:
        """Announce what commit `number` changes; others hear of it when, and only if, it is committed."""
        digests = sorted(map(namespace_digest, namespaces))
        if removing:
            connection.execute(
                "INSERT INTO marks SELECT unnest(%s::text[]), %s "
                "ON CONFLICT (digest) DO UPDATE SET removed = excluded.removed",
                (digests, number),
            )
        if digests:
            connection.execute("SELECT pg_notify(%s, %s)", (self._channel, payload(number, digests)))

    def _rows(self, where: str, values: Sequence[Any]) -> list[Row]:
        return self._reader.run(lambda connection: select_rows(connection, where, values), again=True)

    def _read(self, query: str | sql.Composed, values: Any = None) -> list[TupleRow]:
        text = query.encode() if isinstance(query, str) else query
        return self._reader.run(lambda connection: connection.execute(text, values).fetchall(), again=True)
