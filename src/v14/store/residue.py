"""What deleting leaves behind in a SQLite file, and getting rid of it.

where                               how it goes
deleted cells, freed pages          overwritten with zeros as they are freed (`secure_delete`, on from the first day)
earlier versions of pages (WAL)     the log is written back and cut to nothing
copies that moving cells between    looked for in the dead bytes of pages; if any is there, the whole file is written
pages may leave in a page's gap     anew (VACUUM)
memory of the connections           given back: the catalog opens others

A page whose dead bytes are zeros holds nothing that was deleted, and stays so until it is written. So pages are looked
at once, in the background, and again only where they were written since, as the log says, or were not all zeros.
"""

import os
import secrets
import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path

from v14.errors import StoreError
from v14.store.pages import dead_bytes, logged_pages, page_size_of

CHUNK_PAGES = 4096
MAX_SEARCH_BYTES = 1 << 34
"""Dead bytes times needles beyond which writing the file anew is quicker than searching it."""
ZEROS = bytes(1 << 16)


class Residue:
    """Searches one SQLite file, on which one connection of this process writes.

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
        self._path, self._log = path, path.with_name(f"{path.name}-wal")
        # A byte for each page: 1 where its dead bytes were zeros when it was looked at, and it was not written since.
        self._clean = bytearray()
        self._num_seen = 0

    def note(self) -> None:
        """To be called after every transaction, before the next one: what the log holds is to be looked at again.

        Pages that SQLite has already written back stay in its log until the next transaction begins.
        """
        try:
            descriptor = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
            try:
                for number in logged_pages(descriptor):
                    if number <= len(self._clean):
                        self._clean[number - 1] = 0
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            pass
        except OSError:
            self._clean = bytearray()

    def look(self, max_pages: int) -> bool:
        """Look at the next pages that nobody has looked at, between two transactions; whether any are left."""
        num_pages = self._measure()
        until = min(num_pages, self._num_seen + max_pages)
        for _ in self._dirty(self._num_seen, until):
            pass
        self._num_seen = until
        # Of a page that is in the log still, what was looked at is an older version.
        self.note()
        return until < num_pages

    def remove(self, writer: sqlite3.Connection, needles: Collection[bytes] | None) -> None:
        """Write the log back, and the file anew where a needle is found in it, or where none are given.

        Raises `sqlite3.Error`, and `StoreError` while another process reads.
        """
        self._write_back(writer)
        if needles is None or self._found(needles):
            writer.execute("VACUUM")
            self._write_back(writer)

    def close(self) -> None:
        """Only when the connections are closed."""
        os.close(self._descriptor)

    def _write_back(self, writer: sqlite3.Connection) -> None:
        self.note()
        (busy, _, _) = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreError(
                f"{self._path}: what was forgotten is deleted, but another process reads the catalog and keeps its log "
                "from being cut; it is tried again in the background. End `v14 store` or other readers of this store."
            )

    def _found(self, needles: Collection[bytes]) -> bool:
        searched = 0
        for dead in self._dirty(0, self._measure()):
            searched += len(dead) * len(needles)
            if searched > MAX_SEARCH_BYTES or any(needle in dead for needle in needles):
                return True
        return False

    def _measure(self) -> int:
        """Number of pages of the file; those that are new are to be looked at."""
        self._page_size = page_size_of(self._descriptor)
        num_pages = os.fstat(self._descriptor).st_size // self._page_size if self._page_size else 0
        self._clean = self._clean[:num_pages].ljust(num_pages, b"\0")
        return num_pages

    def _dirty(self, first: int, last: int) -> Iterator[bytes]:
        """Dead bytes other than zeros, page by page, of those of pages [first, last), from 0, that may have some."""
        clean, size = self._clean, self._page_size
        page = clean.find(0, first, last)
        while page >= 0:
            end = min(last, page + CHUNK_PAGES)
            until = clean.find(1, page, end)
            until = end if until < 0 else until
            chunk = os.pread(self._descriptor, (until - page) * size, page * size)
            for place, number in zip(range(0, len(chunk), size), range(page + 1, until + 1), strict=False):
                dead = dead_bytes(chunk[place : place + size], number)
                if ZEROS.startswith(dead):
                    clean[number - 1] = 1
                else:
                    yield dead
            page = clean.find(0, until, last)


def rename_chats(writer: sqlite3.Connection, keys: Collection[tuple[str, str]]) -> None:
    """Give chats that are named after one of the events `keys`, (namespace, id), a name that says nothing."""
    named = "SELECT EXISTS (SELECT 1 FROM events WHERE namespace = ? AND chat_id = ?)"
    rename = "UPDATE events SET chat_id = ? WHERE namespace = ? AND chat_id = ?"
    for key in keys:
        if writer.execute(named, key).fetchone()[0]:
            writer.execute(rename, (f"chat-{secrets.token_hex(16)}", *key))
