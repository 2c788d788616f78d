"""One SQLite file in WAL mode, so that readers never wait for the writer: two connections, a lock for each."""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from v14.errors import StoreError
from v14.store.layout import HOME_VARIABLE
from v14.store.residue import Residue
from v14.store.schema import bring_up, check_known


class SqliteFile:
    """Its connection for reading and the one for writing. Safe for several threads."""

    def __init__(self, path: Path, weights_id: str, *, fsync: bool = True) -> None:
        """Open or create. Raises `StoreError` or `StoreVersionError`."""
        self._path, self._weights_id, self._fsync = path, weights_id, fsync
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._writer, self._reader = _connect(path), _connect(path)
        self._residue = Residue(path)
        try:
            with self._errors():
                self._prepare()
        except BaseException:
            self.close()
            raise

    def reopen(self) -> None:
        """Open what is at the path now, which is another file than before. Raises as opening does."""
        with self._writing, self._reading, self._errors():
            for connection in (self._reader, self._writer, self._residue):
                connection.close()
            self._writer, self._reader = _connect(self._path), _connect(self._path)
            self._residue = Residue(self._path)
            self._prepare()

    def close(self) -> None:
        """Close both connections; further calls raise `StoreError`."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()
            self._residue.close()

    def _prepare(self) -> None:
        check_known(self._writer, self._path)
        self._configure()
        bring_up(self._writer, self._path, self._weights_id, self._transaction)

    def _configure(self) -> None:
        (mode,) = self._writer.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreError(f"{self._path}: this file system has no WAL mode; set {HOME_VARIABLE} to a local disk")
        # FULL makes every commit durable before it is reported; OFF is for stores that need not outlive a power cut.
        self._writer.execute(f"PRAGMA synchronous = {'FULL' if self._fsync else 'OFF'}")
        # What is deleted is overwritten in the pages of the catalog, from its first day: a page keeps no old copy.
        self._writer.execute("PRAGMA secure_delete = ON")
        self._reader.execute("PRAGMA query_only = ON")

    def _renew(self) -> None:
        """Other connections in place of those before, which keep old pages in their scratch memory. Both are held.

        The new ones come first: a file that nobody has open has its log written back and deleted.
        """
        before = self._writer, self._reader
        self._writer, self._reader = _connect(self._path), _connect(self._path)
        try:
            self._configure()
            self._reader.execute("SELECT version FROM store").fetchall()
            # Opens a cursor for writing, and with it the scratch page: later it would be the very memory that the old
            # connection is about to free.
            self._writer.execute("UPDATE store SET version = version WHERE version < 0")
        except BaseException:
            (self._writer, self._reader), before = before, (self._writer, self._reader)
            raise
        finally:
            for connection in before:
                connection.close()

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """The reading connection, seeing one state of the catalog throughout."""
        with self._reading, self._errors():
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                if self._reader.in_transaction:
                    self._reader.execute("ROLLBACK")

    @contextlib.contextmanager
    def _walking(self) -> Iterator[sqlite3.Connection]:
        """The writing connection, for a walk over all rows: whoever reads does not wait for its end."""
        with self._writing, self._errors():
            yield self._writer

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # the first error is the one to report
                self._writer.execute("ROLLBACK")
            raise
        finally:
            self._residue.note()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"{self._path}: {error}. Check the disk, or set {HOME_VARIABLE} to another directory."
            ) from error


def _connect(path: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=0)
    except sqlite3.Error as error:
        raise StoreError(
            f"{path} cannot be opened ({error}); set {HOME_VARIABLE} to a directory that can be written"
        ) from error
