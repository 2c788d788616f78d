"""What only the embedded store does: locking, versions, leftovers. The rest of its tests stand in `contract`."""

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.conftest import Opener
from tests.store.making import WEIGHTS, made
from tests.store.test_failing import wait_until
from v14.errors import StoreError, StoreVersionError
from v14.store.directory import DirectoryStore
from v14.store.files import FileBlobs
from v14.store.layout import Layout, segment_name


def columns(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql).fetchall()


def test_one_directory_for_each_set_of_weights(tmp_path: Path, opened: Opener) -> None:
    opened().put([made(1)])
    with closing(DirectoryStore.open(tmp_path, "sha256:ff")) as other:
        assert other.events("home") == []
        assert sorted(path.name for path in tmp_path.iterdir()) == [WEIGHTS.replace(":", "-"), "sha256-ff"]
    for name in ("", "..", "sha256:../x", "/etc", "a b", "x" * 201):
        with pytest.raises(StoreError, match="weights id"):
            DirectoryStore.open(tmp_path, name)


def test_second_writer_is_named(tmp_path: Path, opened: Opener) -> None:
    store = opened()
    message = rf"written by process {os.getpid()} .*lock.*SGLANG_V14_MEMORY_HOME"
    with pytest.raises(StoreError, match=message):
        DirectoryStore.open(tmp_path, WEIGHTS)
    code = (
        "import sys; from pathlib import Path; from v14.store.directory import DirectoryStore;"
        "DirectoryStore.open(Path(sys.argv[1]), sys.argv[2])"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), WEIGHTS], capture_output=True, text=True, check=False
    )
    assert f"StoreError: {store.path} is being written by process {os.getpid()}" in other.stderr
    store.close()
    DirectoryStore.open(tmp_path, WEIGHTS).close()


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        ("PRAGMA user_version = 99", StoreVersionError, r"catalog.sqlite3 has format 99, this package reads 1 to \d"),
        ("UPDATE store SET version = 1", StoreVersionError, "catalog.sqlite3 says format"),
        ("UPDATE store SET weights_id = 'sha256:other'", StoreVersionError, "sha256:other"),
        ("DROP TABLE store", StoreError, "no such table"),
    ],
)
def test_other_catalogs_are_refused(opened: Opener, damage: str, error: type[StoreError], message: str) -> None:
    store = opened()
    store.put([made(1)])
    store.close()
    columns(Layout(root=store.path).catalog, damage)
    with pytest.raises(error, match=message) as caught:
        opened()
    assert "SGLANG_V14_MEMORY_HOME" in str(caught.value)
    assert len(list(Layout(root=store.path).segments.iterdir())) == 1, "what is refused is not cleaned"


def test_unusable_places_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "sha256-db").mkdir()
    (tmp_path / "sha256-db" / "catalog.sqlite3").write_bytes(b"no database at all" * 100)
    (tmp_path / "sha256-dir" / "catalog.sqlite3").mkdir(parents=True)
    for home, weights in ((tmp_path / "file", WEIGHTS), (Path("/proc"), WEIGHTS)):
        with pytest.raises(StoreError, match=r"cannot be opened .*SGLANG_V14_MEMORY_HOME"):
            DirectoryStore.open(home, weights)
    for weights in ("sha256:db", "sha256:dir"):
        for _ in range(2):  # and nothing stays locked
            with pytest.raises(StoreError, match=r"catalog\.sqlite3"):
                DirectoryStore.open(tmp_path, weights)


def test_orphans_are_removed_after_opening(opened: Opener) -> None:
    store = opened()
    store.put([made(1)])
    store.close()
    segments = Layout(root=store.path).segments
    (kept,) = segments.iterdir()
    for name in ("0000000007.safetensors", "0000000002.tmp", ".tmpAbCdEf"):
        (segments / name).write_bytes(kept.read_bytes()[:40])
    again = opened()
    wait_until(lambda: list(segments.iterdir()) == [kept])
    again.put([made(2)])
    assert again.flush(10)
    assert sorted(path.name for path in segments.iterdir()) == [kept.name, "0000000002.safetensors"]


def test_what_no_row_names_goes_in_the_background(
    tmp_path: Path, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening does not wait for a look at every file: what it is for is done before anything is written."""
    store = opened()
    store.put([made(1)])
    store.close()
    layout = Layout.of(tmp_path, WEIGHTS)
    (segment,) = layout.segments.iterdir()
    stray = layout.segment(segment_name(2))
    stray.write_bytes(segment.read_bytes())
    looking, go_on = threading.Event(), threading.Event()
    names = FileBlobs.names

    def slowly(blobs: FileBlobs) -> set[str]:
        looking.set()
        assert go_on.wait(10)
        return names(blobs)

    monkeypatch.setattr(FileBlobs, "names", slowly)
    store = opened()
    assert looking.wait(10)
    assert stray.exists()
    assert store.events("home") == [made(1)[0]]
    store.put([made(2)])
    go_on.set()
    assert store.flush(10)
    assert sorted(path.name for path in layout.segments.iterdir()) == [segment.name, stray.name]
    assert store.verify() == []
    assert store.events("home") == [made(1)[0], made(2)[0]]
    store.close()


def test_a_disk_that_fails_meanwhile_is_logged(
    tmp_path: Path, opened: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened().close()
    stray = Layout.of(tmp_path, WEIGHTS).segment(segment_name(7))
    stray.write_bytes(b"x")

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(FileBlobs, "remove", refuse)
        store = opened()
        store.put([made(1)])
        assert store.flush(10)
    assert "Input/output error" in caplog.text
    assert store.events("home") == [made(1)[0]]
    assert stray.exists()
    assert store.forget("home", [made(1)[0].id]) == 1
    assert not stray.exists(), "the next forgetting looks again"
