"""What deleting leaves behind in a SQLite file, and getting rid of it.

where                               how it goes
deleted cells, freed pages          overwritten with zeros as they are freed (`secure_delete`, on from the first day)
earlier versions of pages (WAL)     the log is written back and cut to nothing
copies that moving cells between    the dead bytes of every page of a b-tree are overwritten with zeros; other pages
pages may leave in a page's gap     (of an overflow) are searched, and a find has the file written anew (VACUUM)
memory of the connections           given back: the catalog opens others

A page whose dead bytes are zeros holds nothing that was deleted, and stays so until it is written. So pages are looked
at once, in the background, and again only where they were written since, as the log says, or were not all zeros.
"""

import os
import secrets
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from v14.errors import StoreError
from v14.store.pages import dead_bytes, dead_ranges, logged_pages, page_size_of

CHUNK_PAGES = 4096
MAX_SEARCH_BYTES = 1 << 34
"""Bytes of such pages times needles beyond which writing the file anew is quicker than searching it."""
ZEROS = bytes(1 << 16)


class Residue:
    """Searches one SQLite file, on which one connection of this process writes.

    Its descriptor stays open as long as the connections: closing any descriptor of a file lets go of all locks that the
    process has on it. (https://sqlite.org/howtocorrupt.html, 2.2)
    """

    def __init__(self, path: Path) -> None:
        """For a file that is there. Raises `StoreError`."""
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
        """Write the log back, and overwrite what no row owns.

        The file is written anew where a needle is found elsewhere; without needles, where there is an elsewhere. Raises
        `sqlite3.Error`, `OSError`, and `StoreError` while another process reads.
        """
        self._write_back(writer)
        if not self._wiped(writer, needles):
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

    def _wiped(self, writer: sqlite3.Connection, needles: Collection[bytes] | None) -> bool:
        """Overwrite all dead bytes of b-trees, whatever they hold; whether no other page has a needle.

        They are written where they lie, past SQLite, while it keeps every other writer out and its log is empty. What
        stands beside them is as safe as SQLite itself takes it to be: a disk does not damage what lies around the bytes
        that it writes (https://sqlite.org/psow.html).
        """
        searched = num_wiped = 0
        writer.execute("BEGIN IMMEDIATE")
        try:
            for page, number in self._dirty(0, self._measure()):
                ranges = dead_ranges(page, number)
                if ranges is not None:
                    self._wipe(page, number, ranges)
                    num_wiped += 1
                    continue
                searched += len(page) * len(needles or ())
                if needles is None or searched > MAX_SEARCH_BYTES or any(needle in page for needle in needles):
                    return False
            if num_wiped:
                os.fsync(self._descriptor)
        finally:
            writer.execute("ROLLBACK")
            # A page that the connection still holds would be written with its dead bytes as they were.
            writer.execute("PRAGMA shrink_memory")
        return True

    def _wipe(self, page: bytes, number: int, ranges: Sequence[tuple[int, int]]) -> None:
        place = (number - 1) * self._page_size
        for start, end in ranges:
            if not ZEROS.startswith(page[start:end]):
                os.pwrite(self._descriptor, ZEROS[: end - start], place + start)
        self._clean[number - 1] = 1

    def _measure(self) -> int:
        """Number of pages of the file; those that are new are to be looked at."""
        self._page_size = page_size_of(self._descriptor)
        num_pages = os.fstat(self._descriptor).st_size // self._page_size if self._page_size else 0
        self._clean = self._clean[:num_pages].ljust(num_pages, b"\0")
        return num_pages

    def _dirty(self, first: int, last: int) -> Iterator[tuple[bytes, int]]:
        """Those of the pages [first, last), from 0, with dead bytes other than zeros; each with its number, from 1."""
        clean, size = self._clean, self._page_size
        page = clean.find(0, first, last)
        while page >= 0:
            end = min(last, page + CHUNK_PAGES)
            until = clean.find(1, page, end)
            until = end if until < 0 else until
            chunk = os.pread(self._descriptor, (until - page) * size, page * size)
            for place, number in zip(range(0, len(chunk), size), range(page + 1, until + 1), strict=False):
                found = chunk[place : place + size]
                if ZEROS.startswith(dead_bytes(found, number)):
                    clean[number - 1] = 1
                else:
                    yield found, number
            page = clean.find(0, until, last)


def rename_chats(writer: sqlite3.Connection, keys: Collection[tuple[str, str]]) -> None:
    """Give chats that are named after one of the events `keys`, (namespace, id), a name that says nothing."""
    named = "SELECT EXISTS (SELECT 1 FROM events WHERE namespace = ? AND chat_id = ?)"
    rename = "UPDATE events SET chat_id = ? WHERE namespace = ? AND chat_id = ?"
    for key in keys:
        if writer.execute(named, key).fetchone()[0]:
            writer.execute(rename, (f"chat-{secrets.token_hex(16)}", *key))
