"""A store on a real file system that fills up and turns read-only; run by `test_failing` in a mount namespace."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.store.making import WEIGHTS, made, same_trace
from v14.store.directory import DirectoryStore


def mount(*options: str) -> None:
    subprocess.run(["mount", *options], check=True)


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def main(home: Path) -> None:
    mount("-t", "tmpfs", "-o", "size=640k", "none", str(home))
    store = DirectoryStore.open(home, WEIGHTS, retry_s=0.01)
    put: list[int] = []

    def check() -> None:
        for number in put:
            event, trace = made(number, large=number < 100)
            assert same_trace(store.trace("home", event.id), trace), number
        assert len(store.events("home")) == len(put)

    ballast = home / "ballast"
    ballast.write_bytes(bytes(220_000))
    while not store.stats().num_pending:
        put.append(len(put))
        store.put([made(put[-1], large=True)])
        assert store.flush(10)
    assert len(put) > 1
    check()
    print("full")
    ballast.unlink()
    wait_until(lambda: not store.stats().num_pending)
    check()
    print("freed")
    # A descriptor that is open for writing keeps a file system from turning read-only; SQLite holds several.
    store.close()
    store = DirectoryStore.open(home, WEIGHTS, retry_s=0.01)
    mount("--bind", str(store.path / "segments"), str(store.path / "segments"))
    mount("-o", "remount,bind,ro", str(store.path / "segments"))
    put.append(100)
    store.put([made(100)])
    assert store.flush(10)
    assert store.stats().num_pending == 1
    check()
    print("readonly")
    mount("-o", "remount,bind,rw", str(store.path / "segments"))
    wait_until(lambda: not store.stats().num_pending)
    check()
    assert store.stats().num_failed_writes == 0
    print("writable")
    store.close()
    store = DirectoryStore.open(home, WEIGHTS)
    check()
    assert store.verify() == []
    store.close()
    print("reopened")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
