"""A writer killed at any instant leaves a store that opens, with every acknowledged event, and no half ones."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.counts import counted
from tests.store.checker import leftovers, wrongs
from tests.store.hard import rounds
from tests.store.making import WEIGHTS, made
from v14.store.directory import DirectoryStore
from v14.store.layout import Layout
from v14.store.pending import Batch

ROUNDS = rounds(100, 1000)
ROUNDS_PER_DIRECTORY = 10
ROOT = Path(__file__).parents[2]


@contextmanager
def zygote(module: str = "tests.store.zygote") -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", module]
    # numpy's BLAS would start threads, and a process that forks should have none
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def killed(
    process: subprocess.Popen[str], rng: random.Random, seed: int, home: Path | str,
    before: Callable[[], None] = lambda: None,
) -> list[tuple[str, int, bool]]:  # fmt: skip
    """Let a child write to `home`, kill it, and return what it had acknowledged. What `before` does comes first."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{seed} {home}\n")
    lines = []
    pid = 0
    while not pid:
        line = process.stdout.readline().split()
        lines.append(line)
        pid = int(line[1]) if line[0] == "pid" else 0
    if rng.random() < 0.1:
        time.sleep(rng.uniform(0, 0.03))  # anywhere from before the store is there
    else:
        while not any(line[0] == "ack" for line in lines):
            lines.append(process.stdout.readline().split())
            assert lines[-1][0] != "failed", lines[-1]
        time.sleep(rng.uniform(0.005, 0.150))
    before()
    os.kill(pid, signal.SIGKILL)
    while lines[-1][0] != "reaped":
        lines.append(process.stdout.readline().split())
    assert lines[-1] == ["reaped", str(-signal.SIGKILL)]
    words = [word for line in lines if line[0] == "ack" for word in line[1:]]
    triples = zip(words[::3], words[1::3], words[2::3], strict=True)
    return [(namespace, int(number), large == "1") for namespace, number, large in triples]


def test_kill_at_random_instants(tmp_path: Path) -> None:
    rng = random.Random(14)
    num_acknowledged = num_mid_write = 0
    acknowledged: list[tuple[str, int, bool]] = []
    with zygote() as process:
        for number in range(ROUNDS):
            home = tmp_path / f"home-{number // ROUNDS_PER_DIRECTORY}"
            if number % ROUNDS_PER_DIRECTORY == 0:
                acknowledged = []
            new = killed(process, rng, number, home)
            acknowledged += new
            num_acknowledged += len(new)
            num_mid_write += bool(leftovers(home))
            assert wrongs(home, acknowledged) == [], f"round {number}"
            if (number + 1) % ROUNDS_PER_DIRECTORY == 0:
                shutil.rmtree(home)
    counted(
        f"{ROUNDS} kills: {num_acknowledged} events acknowledged, 0 lost, 0 torn, 0 failures to open; {num_mid_write} "
        "left a segment without rows"
    )
    assert num_acknowledged > ROUNDS
    assert num_mid_write > 0, "no kill ever fell between a segment and its rows: the test has lost its point"


class Camera:
    """Copies a store at every step of a commit: what a kill at that instant would leave."""

    def __init__(self, home: Path, album: Path) -> None:
        self.home, self.album = home, album
        self.steps: list[str] = []

    def shoot(self, step: str) -> None:
        shutil.copytree(self.home, self.album / str(len(self.steps)))
        self.steps.append(step)

    def before(self, monkeypatch: pytest.MonkeyPatch, function: Callable[..., None]) -> None:
        def shooting(*args: object) -> None:
            self.shoot(function.__name__)
            function(*args)

        monkeypatch.setattr(os, function.__name__, shooting)


def commit_photographed(
    kind: type[DirectoryStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Camera, list[list[str]]]:
    """Commit two batches; the steps of the second, and what is wrong after each if the first was acknowledged."""
    home = tmp_path / "home"
    camera = Camera(home, tmp_path / "album")
    with closing(kind.open(home, WEIGHTS)) as store:
        store.put([made(1), made(2, "work")])
        assert store.flush(10)
        with monkeypatch.context() as patch:
            camera.before(patch, os.replace)
            camera.before(patch, os.fsync)
            store._catalog._writer.set_trace_callback(lambda sql: camera.shoot(sql.split()[0]))
            store.put([made(3), made(4, "work", large=True)])
            assert store.flush(10)
            store._catalog._writer.set_trace_callback(None)
        camera.shoot("end")
    first = [("home", 1, False), ("work", 2, False)]
    return camera, [wrongs(camera.album / str(step), first) for step in range(len(camera.steps))]


def test_kill_at_every_step_of_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    camera, found = commit_photographed(DirectoryStore, tmp_path, monkeypatch)
    segment, rows = ["fsync", "replace", "fsync"], ["BEGIN", "INSERT", "INSERT", "COMMIT"]
    assert camera.steps == [*segment, *rows, "end"]
    assert found == [[]] * len(found)
    assert wrongs(camera.album / str(len(found) - 1), [("home", 3, False), ("work", 4, True)]) == []


class RowsFirst(DirectoryStore):
    """A store that commits in the wrong order."""

    def _commit(self, batch: Batch) -> None:
        late: list[Callable[[], object]] = []
        blobs = self._segments.blobs
        write = blobs.write
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blobs, "write", lambda *args: late.append(partial(write, *args)))
            super()._commit(batch)
        late.pop()()


def test_kill_checker_sees_rows_committed_before_their_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    camera, found = commit_photographed(RowsFirst, tmp_path, monkeypatch)
    assert camera.steps[:2] == ["BEGIN", "INSERT"]
    assert any("not whole" in wrong for step in found for wrong in step)


def break_nothing(segment: Path) -> None:
    pass


def cut_short(segment: Path) -> None:
    os.truncate(segment, segment.stat().st_size - 1)


def flip_last_bit(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (break_nothing, None),
        (Path.unlink, "missing"),
        (cut_short, "damaged"),
        (flip_last_bit, "not what was stored"),
        (lambda segment: segment.write_bytes(b""), "damaged"),
    ],
    ids=["none", "missing", "truncated", "flipped", "empty"],
)
def test_kill_checker_sees_damage(tmp_path: Path, damage: Callable[[Path], None], word: str | None) -> None:
    with closing(DirectoryStore.open(tmp_path, WEIGHTS)) as store:
        store.put([made(1), made(2)])
    (segment,) = Layout.of(tmp_path, WEIGHTS).segments.iterdir()
    damage(segment)
    found = wrongs(tmp_path, [("home", 1, False), ("home", 2, False)])
    assert bool(found) == (word is not None)
    assert word is None or word in found[0]


def test_kill_checker_sees_a_lost_acknowledged_event(tmp_path: Path) -> None:
    with closing(DirectoryStore.open(tmp_path, WEIGHTS)) as store:
        store.put([made(1)])
    assert wrongs(tmp_path, [("home", 1, False)]) == []
    assert wrongs(tmp_path, [("home", 1, False), ("home", 2, False)]) == ["acknowledged, not there: home 2"]
