"""A disk that says no: everything stays readable, is tried again, and beyond the bound is lost and counted."""

import errno
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.counts import counted
from tests.store.conftest import Opener
from tests.store.hard import HARD
from tests.store.making import made, same_trace
from v14.errors import StoreError
from v14.store.directory import DirectoryStore
from v14.store.layout import Layout


def refuse(number: int) -> Callable[..., None]:
    def refusing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return refusing


def wait_until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.005)


def readable(store: DirectoryStore, numbers: range) -> bool:
    events = [made(number) for number in numbers]
    return store.events("home") == [event for event, _ in events] and all(
        same_trace(store.trace("home", event.id), trace) for event, trace in events
    )


@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_full_disk(opened: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, function) -> None:
    caplog.set_level(logging.INFO, "v14.store")
    store = opened()
    store.put([made(0)])
    assert store.flush(10)
    with monkeypatch.context() as patch:
        patch.setattr(os, function, refuse(errno.ENOSPC))
        for number in range(1, 6):
            store.put([made(number)])
            assert store.flush(10), "a failing store keeps nobody waiting"
        store.touch("home", [made(0)[0].id], 5.0)
        assert readable(store, range(6))
        time.sleep(0.1)  # several more tries
        assert store.stats().num_pending == 5
        assert readable(store, range(6))
        assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
        assert "No space left on device" in caplog.text
    wait_until(lambda: store.stats().num_pending == 0)
    assert store.stats().num_failed_writes == 0
    assert caplog.text.count("can be written again") == 1
    assert readable(store, range(6))
    store.close()
    again = opened()
    assert readable(again, range(6))
    assert again.verify() == []


def test_catalog_that_cannot_be_written(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segment is there, its rows are not: tries do not pile up files, and the next open finds nothing odd."""
    store = opened()
    store._catalog._writer.execute("PRAGMA query_only = ON")
    store.put([made(0), made(1)])
    assert store.flush(10)
    time.sleep(0.1)
    assert readable(store, range(2))
    segments = Layout(root=store.path).segments
    wait_until(lambda: [path.name for path in segments.iterdir()] == ["0000000001.safetensors"])  # between two tries
    store._catalog._writer.execute("PRAGMA query_only = OFF")
    wait_until(lambda: store.stats().num_pending == 0)
    assert readable(store, range(2))


def test_several_kinds_of_failure_are_each_told_once(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened()
    with monkeypatch.context() as patch:
        tries: list[int] = []
        for number in (errno.ENOSPC, errno.EROFS, errno.ENOSPC):
            failing, until = refuse(number), len(tries) + 2
            patch.setattr(os, "replace", lambda *_, failing=failing: tries.append(1) or failing())
            store.put([made(number)])
            wait_until(lambda until=until: len(tries) >= until)
        assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_beyond_the_bound_the_oldest_are_lost(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bound = sum(made(number)[1].num_bytes for number in range(6, 10))
    store = opened(max_failed_bytes=bound)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse(errno.EIO))
        for number in range(10):
            store.put([made(number)])
            assert store.flush(10)
        wait_until(lambda: store.stats().num_failed_writes >= 6)
        assert readable(store, range(6, 10))
        assert store.stats().num_failed_writes == 6
        assert store.stats().num_pending == 4
        assert caplog.text.count("being lost") == 1
    wait_until(lambda: store.stats().num_pending == 0)
    store.put([made(3)])
    assert store.flush(10)
    assert [event.said_at for event in store.events("home")] == [3.0, 6.0, 7.0, 8.0, 9.0]


def test_close_tries_once_more_and_counts_what_is_lost(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(retry_s=60)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse(errno.EIO))
        store.put([made(0)])
        assert store.flush(10)
    store.put([made(1)])
    started = time.monotonic()
    store.close()
    assert time.monotonic() - started < 10, "the pause is not waited out"
    store = opened()
    assert readable(store, range(2))
    monkeypatch.setattr(os, "fsync", refuse(errno.EIO))
    store.put([made(2)])
    store.close()
    assert store._writer.num_lost == 1
    monkeypatch.undo()
    assert readable(opened(), range(2))


def test_removed_directory(opened: Opener) -> None:
    """Deleting the directory forgets; the store that had it open keeps what is new in memory and goes on."""
    store = opened()
    store.put([made(0)])
    assert store.flush(10)
    shutil.rmtree(store.path)
    store.put([made(1), made(2)])
    assert store.flush(10)
    assert same_trace(store.trace("home", made(1)[0].id), made(1)[1])
    assert store.stats().num_pending == 2
    store.close()
    assert opened().events("home") == []


def test_a_directory_that_comes_back(opened: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is new waits in memory meanwhile, and nothing is written to, or forgotten in, files that are not there."""
    store = opened()
    store.put([made(0), made(1)])
    assert store.flush(10)
    away = tmp_path / "away"
    shutil.copytree(store.path, away)
    shutil.rmtree(store.path)
    store.put([made(2)])
    assert store.flush(10)
    assert store.stats().num_pending == 1
    with pytest.raises(StoreError, match="is gone"):
        store.forget("home", [made(0)[0].id])
    # What cannot be read meanwhile is not taken for damaged.
    with pytest.raises(StoreError, match=r"segments is gone.*put it back, it is looked for again"):
        store.trace("home", made(1)[0].id)
    assert store.stats().num_corrupt == 0
    shutil.copytree(away, store.path)
    wait_until(lambda: store.stats().num_pending == 0)
    assert caplog.text.count("is there again") == 1
    assert readable(store, range(3))
    assert store.forget("home", [made(0)[0].id]) == 1
    store.put([made(3)])
    store.close()
    assert readable(opened(), range(1, 4))


def test_a_slow_disk_keeps_nobody_waiting(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sync takes long; everything but `flush` and `forget` is quick all the same."""
    store = opened()
    store.put([made(0)])
    assert store.flush(10)
    slow_s = 2.0 if HARD else 0.4
    monkeypatch.setattr(os, "fsync", lambda _: time.sleep(slow_s))
    longest = 0.0
    for number in range(1, 6):
        for call in (
            lambda number=number: store.put([made(number)]),
            lambda: store.touch("home", [made(0)[0].id], 1.0),
            lambda number=number: store.trace("home", made(number)[0].id),
            lambda: store.trace("home", made(0)[0].id),
            lambda: store.events("home"),
            store.stats,
        ):
            started = time.monotonic()
            call()
            longest = max(longest, time.monotonic() - started)
        time.sleep(slow_s / 4)
    assert store.stats().num_pending
    assert longest < slow_s
    monkeypatch.undo()
    assert store.flush(30)
    assert store.stats().num_failed_writes == 0
    assert readable(store, range(6))
    counted(f"a disk of {slow_s} s a sync: the longest call took {longest:.3f} s")


def test_flush_gives_up_in_time(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    monkeypatch.setattr(os, "fsync", lambda _: time.sleep(0.3))
    store.put([made(0)])
    assert not store.flush(0.01)
    assert store.flush(10)
    assert store.stats().num_pending == 0


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("unshare"), reason="needs Linux namespaces")
def test_real_file_system_full_and_read_only(tmp_path: Path) -> None:
    """On a file system of 640 KiB of its own, in a mount namespace of its own."""
    trial = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if trial.returncode:
        pytest.skip(f"this system gives no mount namespace: {trial.stderr.strip()}")
    script = [sys.executable, "-m", "tests.store.small_disk", str(tmp_path)]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", *script],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["full", "freed", "readonly", "writable", "reopened"]
    counted("a file system of 640 KiB, full, freed, read-only, writable: everything stored read, what waited stored")
