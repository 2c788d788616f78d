"""The shared catalog in PostgreSQL: its tables, and who may use them with which version.

One schema for each set of weights. Every commit raises `store.commits` first and so locks that row until its end:
commits are numbered in the order in which they become visible, whichever writer makes them, and whoever has seen number
n has seen everything up to n. The lock also keeps writers from meeting in a deadlock.

events      as in the embedded catalog; `position` is the order of commits, `commit_no` the commit that wrote the row
segments    every blob there may be: written (announced, its rows are to come), held (rows name it), doomed (to delete)
marks       by digest of a namespace: the last commit that took something from it. Names no namespace, because it
            outlives what was forgotten
"""

import hashlib
import uuid
from dataclasses import fields

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from v14.errors import StoreVersionError
from v14.store.row import Row

SCHEMA_PREFIX = "v14_"

VERSION = 1
"""Format of the shared catalog; its columns are those of format 5 of the embedded one."""

TABLES = """
CREATE TABLE store (
    version integer NOT NULL, weights_id text NOT NULL, segments text NOT NULL, identity text NOT NULL,
    commits bigint NOT NULL
);
CREATE TABLE events (
    namespace text NOT NULL, id text NOT NULL, parent text NOT NULL, chat_id text NOT NULL, role text NOT NULL,
    said_at double precision NOT NULL, token_ids bytea NOT NULL, num_tokens integer NOT NULL,
    closing_len integer NOT NULL, segment text NOT NULL, dtype text NOT NULL, shape text NOT NULL,
    digests bytea NOT NULL, stored_at double precision NOT NULL, recalled_at double precision NOT NULL,
    corrupt integer NOT NULL, engram text NOT NULL, codec text NOT NULL,
    commit_no bigint NOT NULL, position bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (namespace, id)
);
CREATE INDEX events_changed ON events (namespace, commit_no);
CREATE INDEX events_said ON events (namespace, said_at);
CREATE INDEX events_segment ON events (segment);
CREATE TABLE segments (
    name text PRIMARY KEY, state text NOT NULL CHECK (state IN ('written', 'held', 'doomed')),
    num_bytes bigint NOT NULL DEFAULT 0, at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX segments_loose ON segments (state) WHERE state <> 'held';
CREATE TABLE links (
    namespace text NOT NULL, source text NOT NULL, target text NOT NULL, kind text NOT NULL,
    weight double precision NOT NULL, PRIMARY KEY (namespace, source, target, kind)
);
CREATE INDEX links_target ON links (namespace, target);
CREATE TABLE policies (namespace text PRIMARY KEY, ttl_s double precision, max_bytes bigint);
CREATE TABLE audit (
    at double precision NOT NULL, action text NOT NULL, selection text NOT NULL, namespace_digest text NOT NULL,
    num_events bigint NOT NULL, num_tokens bigint NOT NULL, requested_by text NOT NULL,
    finished_at double precision NOT NULL, position bigint GENERATED ALWAYS AS IDENTITY
);
CREATE TABLE keys (number integer PRIMARY KEY, master text NOT NULL, wrapped bytea NOT NULL);
CREATE TABLE marks (digest text PRIMARY KEY, removed bigint NOT NULL);
"""

MIGRATIONS: tuple[str, ...] = ()
"""Script i leads from format i + 1 to the next. None is ever changed or taken out."""

COLUMNS = ", ".join(field.name for field in fields(Row))


def schema_of(weights_id: str) -> str:
    """The schema of a set of weights, which is also the channel that its changes are told on."""
    return f"{SCHEMA_PREFIX}{hashlib.sha256(weights_id.encode()).hexdigest()[:24]}"


def prepare(connection: Connection[TupleRow], weights_id: str, segments: str) -> str:
    """Create the schema of `weights_id`, or check that it is one that this package may write; the store's identity.

    Raises `StoreVersionError` and `psycopg.Error`.
    """
    schema = schema_of(weights_id)
    name = sql.Identifier(schema)
    with connection.transaction():
        # Several servers that start together take turns.
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 14))", (schema,))
        if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone():
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        connection.execute(sql.SQL("SET LOCAL search_path TO {}").format(name))
        if connection.execute("SELECT to_regclass(%s)", (f"{schema}.store",)).fetchone() == (None,):
            connection.execute(TABLES)
            values = (VERSION, weights_id, segments, uuid.uuid4().hex)
            connection.execute("INSERT INTO store VALUES (%s, %s, %s, %s, 1)", values)
        stated = connection.execute("SELECT version, weights_id, segments, identity FROM store").fetchall()
        version = stated[0][0] if len(stated) == 1 else None
        if version is None or not 1 <= version <= VERSION:
            raise StoreVersionError(
                f"the shared store (schema {schema}) has format {version}, this package knows 1 to {VERSION}. "
                "Use the package version that wrote it, or another database."
            )
        if stated[0][1:3] != (weights_id, segments):
            raise StoreVersionError(
                f"the shared store (schema {schema}) is of the weights {stated[0][1]} and has its segments in "
                f"{stated[0][2]}, expected {weights_id} and {segments}. Give the URL with which it was made, "
                "or another database."
            )
        for number, script in enumerate(MIGRATIONS[version - 1 :], start=version + 1):
            connection.execute(script.encode())
            connection.execute("UPDATE store SET version = %s", (number,))
        return str(stated[0][3])
