"""What deleting leaves behind in a SQLite file, and getting rid of it.

where                               how it goes
deleted cells, freed pages          overwritten with zeros as they are freed (`secure_delete`, on from the first day)
earlier versions of pages (WAL)     the log is written back and cut to nothing
copies that moving cells between    looked for; if any is there, the whole file is written anew (VACUUM)
pages may leave in a page's gap
page caches of the connections      given back
"""

import os
import secrets
import sqlite3
from collections.abc import Collection
from pathlib import Path

from v14.errors import StoreError

CHUNK_BYTES = 1 << 24
MAX_SEARCH_BYTES = 1 << 34
"""Bytes of file times needles beyond which writing the file anew is quicker than searching it."""


class Residue:
    """Searches one SQLite file.

    Its descriptor stays open as long as the connections: closing any descriptor of a file lets go of all locks that the
    process has on it. (https://sqlite.org/howtocorrupt.html, 2.2)
    """

    def __init__(self, path: Path) -> None:
        """For a file that is there. Raises `StoreError`."""
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"{path} cannot be opened ({error}); check its owner and the limits of the process"
            ) from error
        self._path = path

    def remove(self, writer: sqlite3.Connection, needles: Collection[bytes] | None) -> None:
        """Write the log back, and the file anew where a needle is found in it, or where none are given.

        Raises `sqlite3.Error`, and `StoreError` while another process reads.
        """
        self._write_back(writer)
        if needles is None or self._found(needles):
            writer.execute("VACUUM")
            self._write_back(writer)
        writer.execute("PRAGMA shrink_memory")

    def close(self) -> None:
        """Only when the connections are closed."""
        os.close(self._descriptor)

    def _write_back(self, writer: sqlite3.Connection) -> None:
        (busy, _, _) = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreError(
                f"{self._path}: what was forgotten is deleted, but another process reads the catalog and keeps its log "
                "from being cut; it is tried again in the background. End `v14 store` or other readers of this store."
            )

    def _found(self, needles: Collection[bytes]) -> bool:
        size = os.fstat(self._descriptor).st_size
        if size * len(needles) > MAX_SEARCH_BYTES:
            return True
        overlap = max(map(len, needles), default=1)
        for start in range(0, size, CHUNK_BYTES):
            chunk = os.pread(self._descriptor, CHUNK_BYTES + overlap, start)
            if any(needle in chunk for needle in needles):
                return True
        return False


def rename_chats(writer: sqlite3.Connection, keys: Collection[tuple[str, str]]) -> None:
    """Give chats that are named after one of the events `keys`, (namespace, id), a name that says nothing."""
    for namespace in {namespace for namespace, _ in keys}:
        chats = writer.execute("SELECT DISTINCT chat_id FROM events WHERE namespace = ?", (namespace,)).fetchall()
        gone = {event_id for other, event_id in keys if other == namespace} & {chat for (chat,) in chats}
        rename = "UPDATE events SET chat_id = ? WHERE namespace = ? AND chat_id = ?"
        writer.executemany(rename, ((f"chat-{secrets.token_hex(16)}", namespace, chat) for chat in gone))
