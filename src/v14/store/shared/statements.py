"""Statements of the shared catalog that its transactions are made of."""

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, fields
from typing import Any

from psycopg import sql

from v14.errors import StoreError
from v14.store.audit import Record
from v14.store.links import LinkChange, LinkKey
from v14.store.pending import Key
from v14.store.row import Row
from v14.store.shared.connection import Plain
from v14.store.vault import StoreKey

NAMES = [field.name for field in fields(Row)]
COLUMNS = sql.SQL(", ").join(map(sql.Identifier, NAMES))
KEYS = sql.SQL("SELECT * FROM unnest(%(namespaces)s::text[], %(ids)s::text[]) AS asked (namespace, id)")


def stored_keys(connection: Plain) -> list[StoreKey]:
    """The store keys, by number."""
    found = connection.execute("SELECT number, master, wrapped FROM keys ORDER BY number")
    return [StoreKey(number=number, master=master, wrapped=bytes(wrapped)) for number, master, wrapped in found]


def replace_keys(connection: Plain, keys: Iterable[StoreKey]) -> None:
    """Replace the store keys, within a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM keys")
        cursor.executemany("INSERT INTO keys VALUES (%s, %s, %s)", [astuple(key) for key in keys])


def next_number(connection: Plain) -> int:
    """Raise the number of commits, and keep other writers out until the transaction ends."""
    ((number,),) = connection.execute("UPDATE store SET commits = commits + 1 RETURNING commits").fetchall()
    return int(number)


def select_rows(connection: Plain, where: str, values: Sequence[Any]) -> list[Row]:
    """Rows by a condition."""
    query = sql.SQL("SELECT {} FROM events WHERE ").format(COLUMNS).as_bytes(connection) + where.encode()
    return [Row(**dict(zip(NAMES, found, strict=True))) for found in connection.execute(query, values)]


def asked(keys: Iterable[Key]) -> dict[str, list[str]]:
    """Parameters of `KEYS`."""
    pairs = list(keys)
    return {"namespaces": [namespace for namespace, _ in pairs], "ids": [event_id for _, event_id in pairs]}


def columns(names: Iterable[str]) -> sql.Composed:
    """Names, separated by commas."""
    return sql.SQL(", ").join(map(sql.Identifier, names))


def insert(connection: Plain, table: str, value: Record) -> None:
    """Add a row."""
    names = [field.name for field in fields(value)]
    query = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(table), columns(names), sql.SQL(", ").join([sql.Placeholder()] * len(names))
    )
    connection.execute(query, astuple(value))


def hold(connection: Plain, names: Collection[str]) -> None:
    """Announced segments get their rows. Raises `StoreError` where one was doomed meanwhile."""
    held = connection.execute(
        "UPDATE segments SET state = 'held' WHERE state = 'written' AND name = ANY(%s)", (list(names),)
    )
    if held.rowcount != len(names):
        raise StoreError("a segment was written too long ago and has been collected; it is written again")


def doom_unnamed(connection: Plain) -> None:
    """Doom held segments that no row names any more. No row ever names one again: names are used once."""
    connection.execute(
        "UPDATE segments SET state = 'doomed' WHERE state = 'held' "
        "AND NOT EXISTS (SELECT 1 FROM events WHERE events.segment = segments.name)"
    )


def write_links(connection: Plain, changes: Mapping[LinkKey, LinkChange]) -> None:
    """Make the changes. A link with an end that has no row is passed over."""
    for key, change in changes.items():
        if change.afresh:
            connection.execute(
                "DELETE FROM links WHERE namespace = %s AND source = %s AND target = %s AND kind = %s", key
            )
        if change.weight is not None:
            connection.execute(
                "INSERT INTO links AS old SELECT n, s, t, k, w FROM (VALUES (%s::text, %s::text, %s::text, %s::text, "
                "%s::double precision)) AS new (n, s, t, k, w) "
                "WHERE EXISTS (SELECT 1 FROM events WHERE namespace = n AND id = s) "
                "AND EXISTS (SELECT 1 FROM events WHERE namespace = n AND id = t) "
                "ON CONFLICT (namespace, source, target, kind) DO UPDATE SET "
                "weight = greatest(old.weight, excluded.weight)",
                (*key, change.weight),
            )


def cut_links(connection: Plain, keys: Iterable[Key]) -> None:
    """Remove every link with an end among `keys`."""
    query = sql.SQL(
        "DELETE FROM links USING ({}) AS k "
        "WHERE links.namespace = k.namespace AND (links.source = k.id OR links.target = k.id)"
    )
    connection.execute(query.format(KEYS), asked(keys))


def rename_chats(connection: Plain, keys: Iterable[Key]) -> None:
    """Give chats that are named after one of the events `keys` a name that says nothing."""
    query = sql.SQL(
        "UPDATE events SET chat_id = 'chat-' || md5(%(salt)s || k.id) FROM ({}) AS k "
        "WHERE events.namespace = k.namespace AND events.chat_id = k.id"
    )
    connection.execute(query.format(KEYS), {**asked(keys), "salt": secrets.token_hex(16)})
