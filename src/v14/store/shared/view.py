"""Looking into the stores of a database: reading only, while servers write."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import IsolationLevel, sql

from v14.errors import StoreError
from v14.home import SharedHome
from v14.store.layout import HOME_VARIABLE
from v14.store.seal import MasterKey
from v14.store.shared.connection import Plain, connect
from v14.store.shared.schema import SCHEMA_PREFIX
from v14.store.shared.statements import stored_keys
from v14.store.vault import Vault
from v14.store.view import COUNTS, EVENTS, FORMS, EventView, StoreView, event_view, form_names


def views(home: SharedHome) -> list[StoreView]:
    """Every store of the database, by schema. Raises `StoreError`."""
    found = []
    for connection, schema, weights_id in _stores(home):
        counts = connection.execute(COUNTS.encode()).fetchall()
        ((num_corrupt,),) = connection.execute("SELECT count(*) FROM events WHERE corrupt = 1").fetchall()
        keys = stored_keys(connection)
        ((num_bytes, segments),) = connection.execute(
            "SELECT (SELECT coalesce(sum(num_bytes), 0) FROM segments WHERE state = 'held'), segments FROM store"
        ).fetchall()
        found.append(
            StoreView(
                path=f"{segments}/{schema}",
                weights_id=weights_id,
                num_events=sum(events for _, events, _ in counts),
                num_tokens=sum(int(tokens) for _, _, tokens in counts),
                num_bytes=int(num_bytes),
                num_corrupt=num_corrupt,
                namespaces={namespace: events for namespace, events, _ in counts},
                forms=form_names(dict(connection.execute(FORMS.encode()).fetchall())),
                key=keys[-1].master if keys else "",
            )
        )
    return found


def events(home: SharedHome, namespace: str | None = None, master: MasterKey | None = None) -> list[EventView]:
    """The events of every store of the database, of one namespace or all, by `said_at`.

    Raises `StoreError`, and `StoreKeyError` for a store that is encrypted with another key than `master`.
    """
    found = []
    for connection, _, weights_id in _stores(home):
        where = b" AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s)"
        rows = connection.execute(EVENTS.encode() + where, {"namespace": namespace})
        vault = Vault.open(weights_id, stored_keys(connection), master)
        found += [event_view(weights_id, row, vault) for row in rows]
    return sorted(found, key=lambda event: event.said_at)


def _stores(home: SharedHome) -> Iterator[tuple[Plain, str, str]]:
    """A connection, within one transaction and seeing the schema's tables, with schema and weights id."""
    with _reading(home) as connection:
        pattern = SCHEMA_PREFIX.replace("_", r"\_") + "%"
        schemas = connection.execute(
            "SELECT schemaname FROM pg_tables WHERE tablename = 'store' AND schemaname LIKE %s ORDER BY 1", (pattern,)
        ).fetchall()
        for (schema,) in schemas:
            connection.execute(sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(schema)))
            ((weights_id,),) = connection.execute("SELECT weights_id FROM store").fetchall()
            yield connection, schema, weights_id


@contextmanager
def _reading(home: SharedHome) -> Iterator[Plain]:
    try:
        with connect(home.conninfo, "public") as connection:
            connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
            with connection.transaction():
                yield connection
    except psycopg.Error as error:
        why = home.hide(str(error))
        raise StoreError(f"the shared store {home} cannot be read: {why}. Check {HOME_VARIABLE}.") from error
