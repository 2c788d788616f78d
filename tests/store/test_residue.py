"""Copies of deleted rows in a SQLite file: what is looked at, what is found, and that nothing is overlooked."""

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from v14.errors import StoreError
from v14.store.pages import dead_bytes, logged_pages, page_size_of
from v14.store.residue import Residue

PAGE = 4096


class File:
    """A table of named blobs in a file of its own, of random names, as events have them."""

    def __init__(self, path: Path, *, secure: bool, seed: int = 3) -> None:
        self.path, self.rng = path, random.Random(seed)
        path.touch()
        self.writer = sqlite3.connect(path, isolation_level=None, cached_statements=0)
        for statement in (
            "PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF", f"PRAGMA secure_delete = {secure}",
            "CREATE TABLE events (name TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (name))",
        ):  # fmt: skip
            self.writer.execute(statement)
        self.residue = Residue(path)
        self.held: list[tuple[str, bytes]] = []

    def put(self, num: int) -> None:
        rows = [(self.rng.randbytes(32).hex(), self.rng.randbytes(self.rng.choice((16, 90, 700)))) for _ in range(num)]
        self._run("INSERT INTO events VALUES (?, ?)", rows)
        self.held += rows

    def grow(self) -> None:
        """Rows of another size are moved, within their page or to another one."""
        chosen = self.rng.sample(range(len(self.held)), min(5, len(self.held)))
        for place in chosen:
            name, _ = self.held[place]
            self.held[place] = name, self.rng.randbytes(self.rng.choice((16, 90, 700)))
        self._run("UPDATE events SET body = ?2 WHERE name = ?1", [self.held[place] for place in chosen])

    def delete(self, num: int) -> list[bytes]:
        gone = [self.held.pop(self.rng.randrange(len(self.held))) for _ in range(min(num, len(self.held)))]
        self._run("DELETE FROM events WHERE name = ?", [(name,) for name, _ in gone])
        return [part for name, body in gone for part in (name.encode(), body)]

    def content(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.path.parent.glob(f"{self.path.name}*")))

    def _run(self, sql: str, rows: list) -> None:
        self.writer.execute("BEGIN IMMEDIATE")
        self.writer.executemany(sql, rows)
        self.writer.execute("COMMIT")
        self.residue.note()

    def close(self) -> None:
        self.writer.close()
        self.residue.close()


@pytest.fixture(params=[True, False], ids=["overwriting", "leaving"])
def file(request, tmp_path: Path) -> Iterator[File]:
    with closing(File(tmp_path / "events.sqlite3", secure=request.param)) as made:
        yield made


def pages(path: Path) -> list[bytes]:
    content = path.read_bytes()
    return [content[place : place + PAGE] for place in range(0, len(content), PAGE)]


def test_dead_bytes_hold_what_was_deleted_and_nothing_that_is_held(file: File) -> None:
    file.put(400)
    for _ in range(20):
        file.grow()
    gone = file.delete(100)
    file.residue._write_back(file.writer)
    dead = b"|".join(dead_bytes(page, number) for number, page in enumerate(pages(file.path), start=1))
    content = file.content()
    assert sum(part in content for part in gone) == sum(part in dead for part in gone)
    if file.writer.execute("PRAGMA secure_delete").fetchone() == (0,):
        assert sum(part in dead for part in gone) > 100, "nothing overwrites what this file deletes"
    else:
        assert sum(part in dead for part in gone) < 5
    live = [body for _, body in file.held if len(body) > 90]
    # Copies of rows that are held lie in gaps, too: few, where what is deleted is overwritten.
    assert sum(body in dead for body in live) < len(live)


def test_pages_that_make_no_sense_are_dead_as_a_whole(file: File) -> None:
    file.put(50)
    file.residue._write_back(file.writer)
    leaf = next(page for page in pages(file.path)[1:] if page[0] in (10, 13))
    assert len(dead_bytes(leaf, 2)) < PAGE
    for place, value in ((0, b"\x00"), (1, b"\xff\xff"), (3, b"\xff\xff"), (5, b"\x00\x01")):
        broken = leaf[:place] + value + leaf[place + len(value) :]
        assert dead_bytes(broken, 2) == broken
    circle = bytearray(leaf)
    cells_at = int.from_bytes(leaf[5:7])
    circle[1:3], circle[cells_at : cells_at + 4] = leaf[5:7], leaf[5:7] + b"\x00\x08"
    assert dead_bytes(bytes(circle), 2) == circle
    assert dead_bytes(b"", 2) == b""
    assert dead_bytes(b"\x0d", 1) == b"\x0d"


def test_the_log_names_the_pages_of_its_transactions(file: File, tmp_path: Path) -> None:
    log = os.open(tmp_path / "events.sqlite3-wal", os.O_RDONLY)
    try:
        file.put(200)
        first = set(logged_pages(log))
        assert first >= set(range(1, 4))
        assert max(first) * PAGE <= os.stat(file.path).st_size + len(first) * PAGE
        file.residue._write_back(file.writer)
        assert list(logged_pages(log)) == []
        file.delete(1)
        again = set(logged_pages(log))
        assert 0 < len(again) < len(first)
        # Begun anew without being cut: frames of before have other salts.
        file.put(100)
        file.writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        file.delete(1)
        assert 0 < len(list(logged_pages(log))) < 20
    finally:
        os.close(log)
    assert page_size_of(file.residue._descriptor) == PAGE


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    steps=st.lists(
        st.sampled_from(("put", "grow", "delete", "look", "forget", "roll back", "write back")), max_size=30
    ),
    secure=st.booleans(),
)
def test_nothing_is_overlooked(tmp_path_factory, seed: int, steps: list[str], secure: bool) -> None:
    """After `remove` none of what was deleted is in any file, whatever was looked at before."""
    path = tmp_path_factory.mktemp("residue") / "events.sqlite3"
    with closing(File(path, secure=secure, seed=seed)) as file:
        file.put(120)
        for step in steps:
            if step == "put":
                file.put(40)
            elif step == "grow" and file.held:
                file.grow()
            elif step == "delete":
                # Not asked for: what it leaves is there for as long as nobody asks.
                file.delete(1)
            elif step == "look":
                file.residue.look(7)
            elif step == "roll back":
                file.writer.execute("BEGIN IMMEDIATE")
                file.writer.execute("DELETE FROM events")
                file.writer.execute("ROLLBACK")
                file.residue.note()
            elif step == "write back":
                file.writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            elif step == "forget":
                needles = file.delete(3)
                file.residue.remove(file.writer, needles)
                content = file.content()
                assert [needle for needle in needles if needle in content] == []
        assert sorted(file.writer.execute("SELECT name, body FROM events")) == sorted(file.held)


def test_looked_at_once(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second forgetting reads what was written since the first, and pages with dead bytes, not the whole file."""
    file.put(2000)
    file.residue._write_back(file.writer)
    while file.residue.look(100):
        pass
    read = []
    pread = os.pread

    def counting(descriptor: int, size: int, place: int) -> bytes:
        read.append(size if descriptor == file.residue._descriptor else 0)
        return pread(descriptor, size, place)

    monkeypatch.setattr(os, "pread", counting)
    file.residue.remove(file.writer, file.delete(1))
    if file.writer.execute("PRAGMA secure_delete").fetchone() == (1,):
        assert sum(read) < os.stat(file.path).st_size / 2
    read.clear()
    file.residue._clean = bytearray()
    file.residue.remove(file.writer, file.delete(1))
    assert sum(read) >= os.stat(file.path).st_size / 2


def test_without_the_note_something_is_overlooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: pages that count as clean for ever hide what is deleted in them."""
    with closing(File(tmp_path / "events.sqlite3", secure=False)) as file:
        file.put(300)
        file.residue._write_back(file.writer)
        while file.residue.look(100):
            pass
        file.residue._clean[:] = b"\1" * len(file.residue._clean)
        monkeypatch.setattr(Residue, "note", lambda self: None)
        needles = file.delete(20)
        file.residue.remove(file.writer, needles)
        content = file.content()
        assert any(needle in content for needle in needles)
        monkeypatch.undo()
        file.residue.note()
        file.residue._clean = bytearray()
        file.residue.remove(file.writer, needles)
        content = file.content()
        assert not any(needle in content for needle in needles)


def test_a_log_that_cannot_be_read_makes_everything_unseen(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    file.put(300)
    while file.residue.look(100):
        pass
    assert file.residue._clean

    def refusing(*_: object) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing)
        file.residue.note()
    assert not file.residue._clean


def test_another_reader_is_told_of(file: File) -> None:
    file.put(10)
    file.writer.execute("PRAGMA busy_timeout = 10")
    with closing(sqlite3.connect(file.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        needles = file.delete(1)
        with pytest.raises(StoreError, match="another process reads"):
            file.residue.remove(file.writer, needles)


def held_in_gaps(file: File, needles: list[bytes]) -> list[int]:
    """Numbers of the pages whose dead bytes hold one of them."""
    return [
        number
        for number, page in enumerate(pages(file.path), start=1)
        if any(needle in dead_bytes(page, number) for needle in needles)
    ]


def test_copies_are_overwritten_where_they_lie(tmp_path: Path) -> None:
    """Gaps of pages are written, not the file; and what stands there stays, also when it is written on."""
    with closing(File(tmp_path / "events.sqlite3", secure=False)) as file:
        file.put(2000)
        needles = file.delete(2)
        file.residue._write_back(file.writer)
        found, before = held_in_gaps(file, needles), pages(file.path)
        assert found
        statements: list[str] = []
        file.writer.set_trace_callback(statements.append)
        file.residue.remove(file.writer, needles)
        file.writer.set_trace_callback(None)
        assert "VACUUM" not in statements
        after = pages(file.path)
        changed = {number for number, (a, b) in enumerate(zip(before, after, strict=True), start=1) if a != b}
        assert set(found) <= changed
        assert len(changed) < len(after)
        assert not any(
            any(dead_bytes(page, number)) for number, page in enumerate(after, start=1) if page[0] in (10, 13)
        )
        assert file.writer.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert sorted(file.writer.execute("SELECT name, body FROM events")) == sorted(file.held)
        # Whatever SQLite kept of those pages in memory does not come back with its next rows.
        for _ in range(5):
            file.put(100)
            file.grow()
        file.residue._write_back(file.writer)
        assert [needle for needle in needles if needle in file.content()] == []
        assert file.writer.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_what_lies_in_an_overflow_has_the_file_written_anew(tmp_path: Path) -> None:
    """No page of a b-tree: which of its bytes are a row's is not looked at."""
    with closing(File(tmp_path / "events.sqlite3", secure=True)) as file:
        file.put(50)
        body = file.rng.randbytes(9000)
        file._run("INSERT INTO events VALUES (?, ?)", [("long", body)])
        statements: list[str] = []
        file.writer.set_trace_callback(statements.append)
        file.residue.remove(file.writer, [body[5000:5100]])
        assert "VACUUM" in statements
        assert file.writer.execute("SELECT body FROM events WHERE name = 'long'").fetchone() == (body,)
