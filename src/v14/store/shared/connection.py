"""One connection to PostgreSQL, opened when it is needed and opened again when it was lost."""

import threading
from collections.abc import Callable
from typing import TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from v14.errors import StoreError, StoreUnavailableError

Plain = psycopg.Connection[TupleRow]
Result = TypeVar("Result")

TIMEOUTS = {
    "connect_timeout": "5", "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3",
    "tcp_user_timeout": "5000",
}  # fmt: skip
"""libpq's, where the URL does not say otherwise: a server that vanished is given up after seconds, not minutes."""

SESSION = """
SET statement_timeout = '30s';
SET idle_in_transaction_session_timeout = '30s';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
"""A writer that was stopped lets go of its locks after 30 s, and a commit that is reported is on the server's disk."""

HOLD = b"SELECT pg_advisory_lock_shared(hashtextextended(%s, 16))"
HOLD_ALONE = b"SELECT pg_try_advisory_lock(hashtextextended(%s, 16))"


def connect(conninfo: str, schema: str) -> Plain:
    """A connection in autocommit mode that sees the tables of `schema`, and holds it. Raises `psycopg.Error`."""
    stated = conninfo_to_dict(conninfo)
    connection = psycopg.connect(
        make_conninfo(conninfo, **{name: value for name, value in TIMEOUTS.items() if name not in stated}),
        autocommit=True, application_name="sglang-v14",
    )  # fmt: skip
    try:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
        connection.execute(SESSION)
        connection.execute(HOLD, (schema,))
    except BaseException:
        connection.close()
        raise
    return connection


def hold_alone(connection: Plain, schema: str) -> bool:
    """Keep every other connection from `schema` until this one is closed; False where there are others now."""
    ((alone,),) = connection.execute(HOLD_ALONE, (schema,)).fetchall()
    return bool(alone)


class Wire:
    """A connection for one thread at a time."""

    def __init__(self, open_connection: Callable[[], Plain], may_open: Callable[[], bool] = lambda: True) -> None:
        """Where `may_open` says no, and there is no connection, calls fail at once: requests do not wait for a server
        that somebody else already knows to be out of reach."""
        self._open, self._may_open = open_connection, may_open
        self._connection: Plain | None = None
        self._lock = threading.Lock()
        self._closed = False

    def run(self, work: Callable[[Plain], Result], *, again: bool = False) -> Result:
        """What `work` does with the connection; `again` if it may be done a second time on a new one.

        Raises `StoreUnavailableError` where the server does not answer, `StoreError` for what it refuses.
        """
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed")
            was_open = self._connection is not None
            try:
                try:
                    return work(self._opened())
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    # An idle connection is found to be lost only when it is used.
                    if not (again and was_open and self._lost()):
                        raise
                    return work(self._opened())
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self._drop()
                raise StoreUnavailableError(
                    f"the catalog does not answer: {_line(error)}; it is asked again soon"
                ) from error
            except psycopg.Error as error:
                raise StoreError(f"the catalog refuses: {_line(error)}; check the rights of its user") from error

    def close(self) -> None:
        """Close the connection; further calls raise `StoreError`."""
        with self._lock:
            self._closed = True
            self._drop()

    def _opened(self) -> Plain:
        if self._connection is None:
            if not self._may_open():
                raise StoreUnavailableError("the catalog does not answer; it is asked again soon")
            self._connection = self._open()
        return self._connection

    def _lost(self) -> bool:
        """Whether the connection is gone; then it is let go of."""
        lost = self._connection is None or self._connection.broken or self._connection.closed
        if lost:
            self._drop()
        return lost

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
