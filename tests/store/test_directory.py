"""Opening, restarting, locking, versions, damage, threads."""

import os
import sqlite3
import subprocess
import sys
import threading
import weakref
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.store.conftest import Opener
from tests.store.making import WEIGHTS, made, same_bits, same_trace
from v14.errors import StoreError, StoreVersionError, TraceCorruptError
from v14.store.directory import DirectoryStore
from v14.store.layout import Layout
from v14.types import Event, Trace


def columns(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql).fetchall()


def test_restart_gives_the_same_bytes(opened: Opener) -> None:
    first = opened(clock=lambda: 99.0)
    first.put([made(number) for number in range(20)])
    first.close()
    files = {path: path.read_bytes() for path in Layout(root=first.path).segments.iterdir()}
    second = opened()
    assert second.events("home") == [made(number)[0] for number in range(20)]
    for number in range(20):
        event, trace = made(number)
        assert same_trace(second.trace("home", event.id), trace)
        assert same_bits(second.keys_of_layers("home", event.id, [3, 1]), trace.keys[[3, 1]])
    assert second.stats().num_bytes == sum(map(len, files.values()))
    second.put([made(20)])
    second.close()
    assert {path: path.read_bytes() for path in files} == files, "a segment that was written is never changed"
    assert columns(Layout(root=first.path).catalog, "SELECT DISTINCT stored_at FROM events WHERE said_at < 20") == [
        (99.0,)
    ]


def test_events_of_one_moment_keep_their_order(opened: Opener) -> None:
    store = opened()
    events = [(replace(event, said_at=5.0), trace) for event, trace in map(made, (3, 1, 2, 0))]
    store.put(events[:2])
    assert store.flush(10)
    store.put(events[2:])
    assert store.events("home") == [event for event, _ in events]


def test_touch_is_written(opened: Opener) -> None:
    store = opened()
    (one, trace), two, three = made(1), made(2), made(3)
    store.put([(one, trace), two])
    assert store.flush(10)
    store.touch("home", [one.id, "sha256:unknown"], 50.0)
    store.touch("home", [one.id], 40.0)
    store.put([three])
    store.touch("home", [three[0].id], 60.0)
    store.close()
    recalled = columns(Layout(root=store.path).catalog, "SELECT said_at, recalled_at FROM events ORDER BY said_at")
    assert recalled == [(1.0, 50.0), (2.0, 0.0), (3.0, 60.0)]


def test_committed_traces_leave_memory(opened: Opener) -> None:
    store = opened()
    event, trace = made(1)
    store.put([(event, trace)])
    alive = weakref.ref(trace)
    del trace
    assert store.flush(10)
    assert alive() is None
    assert same_trace(store.trace("home", event.id), made(1)[1])


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


def test_orphans_are_removed_at_open(opened: Opener) -> None:
    store = opened()
    store.put([made(1)])
    store.close()
    segments = Layout(root=store.path).segments
    (kept,) = segments.iterdir()
    for name in ("0000000007.safetensors", "0000000002.tmp", ".tmpAbCdEf"):
        (segments / name).write_bytes(kept.read_bytes()[:40])
    again = opened()
    assert list(segments.iterdir()) == [kept]
    again.put([made(2)])
    assert again.flush(10)
    assert sorted(path.name for path in segments.iterdir()) == [kept.name, "0000000002.safetensors"]


def test_damage_is_set_aside_and_the_rest_serves(opened: Opener, caplog: pytest.LogCaptureFixture) -> None:
    store = opened()
    for number in range(3):
        store.put([made(number)])
        assert store.flush(10)
    layout = Layout(root=store.path)
    whole = layout.segment("0000000001.safetensors").read_bytes()
    layout.segment("0000000001.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    layout.segment("0000000002.safetensors").unlink()
    ids = [made(number)[0].id for number in range(3)]
    with pytest.raises(TraceCorruptError, match=r"0000000001\.safetensors"):
        store.trace("home", ids[0])
    with pytest.raises(TraceCorruptError, match=r"0000000002\.safetensors"):
        store.keys_of_layers("home", ids[1], [0])
    for _ in range(2):
        assert [event.id for event in store.events("home")] == ids[2:]
        assert store.has("home", ids) == {ids[2]}
        assert store.stats().num_corrupt == 2
        assert store.stats().num_events == 1
        with pytest.raises(KeyError):
            store.trace("home", ids[0])
        assert same_trace(store.trace("home", ids[2]), made(2)[1])
        store.close()
        store = opened()
    assert caplog.text.count("is set aside") == 2
    layout.segment("0000000001.safetensors").write_bytes(whole)
    assert store.verify() == [("home", ids[1])], "a file put back is taken back"
    store.put([made(1)])
    assert store.flush(10)
    assert same_trace(store.trace("home", ids[1]), made(1)[1]), "what is read again is stored again"
    assert store.stats().num_corrupt == 0
    assert store.verify() == []


def test_a_row_that_is_not_its_id_is_set_aside(opened: Opener) -> None:
    store = opened()
    store.put([made(1), made(2)])
    assert store.flush(10)
    other = made(1)[0].token_ids[0] + 1
    catalog = Layout(root=store.path).catalog
    changed = f"CAST(x'{other:02x}' || substr(token_ids, 2) AS BLOB)"
    columns(catalog, f"UPDATE events SET token_ids = {changed} WHERE said_at = 1.0")
    assert store.verify() == [("home", made(1)[0].id)]
    assert store.events("home") == [made(2)[0]]
    columns(catalog, "UPDATE events SET token_ids = x'00' WHERE said_at = 2.0")
    with pytest.raises(KeyError):
        store.get("home", [made(2)[0].id])
    assert store.events("home") == []
    assert store.stats().num_corrupt == 2


def test_what_can_never_be_stored_is_refused_at_once(opened: Opener) -> None:
    store = opened()
    event, trace = made(1)
    longer = Trace(keys=torch.zeros(1, 9, 1, 1), values=torch.zeros(1, 9, 1, 1))
    double = Trace(keys=trace.keys.double(), values=trace.values.double())
    bad: list[tuple[Event, Trace]] = [
        (event, longer),
        (event, double),
        (replace(event, said_at=float("nan")), trace),
        (replace(event, namespace="\ud800"), trace),
    ]
    for pair in bad:
        with pytest.raises(ValueError, match=r"event|dtype|encode"):
            store.put([made(2), pair])
    assert store.stats().num_events == 0


def test_slots_out_of_range(opened: Opener) -> None:
    store = opened()
    event, trace = made(1)
    store.put([(event, trace)])
    for _ in range(2):
        assert store.keys_of_layers("home", event.id, []).shape == (0, *trace.keys.shape[1:])
        for slot in (-1, 4):
            with pytest.raises(IndexError):
                store.keys_of_layers("home", event.id, [slot])
        assert store.flush(10)


def test_closed_store_says_so(opened: Opener) -> None:
    store = opened()
    store.close()
    store.close()
    assert store.flush(0)
    for call in (lambda: store.put([made(1)]), lambda: store.events("home"), store.stats):
        with pytest.raises(StoreError, match="closed"):
            call()


def test_threads(opened: Opener) -> None:
    """Eight threads put, read what they put and list, while the writer commits under them."""
    store = opened(fsync=False, batch_bytes=4000)
    failures: list[Exception] = []

    def work(thread: int) -> None:
        namespace = f"n{thread % 3}"
        try:
            for number in range(thread * 100, thread * 100 + 25):
                event, trace = made(number, namespace)
                store.put([(event, trace), made(7, namespace)])
                assert same_trace(store.trace(namespace, event.id), trace)
                assert event in store.events(namespace)
                assert store.get(namespace, [event.id]) == [event]
                if number % 7 == 0:
                    assert store.flush(30)
        except Exception as error:  # noqa: BLE001 - a thread's failure is asserted on below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum(store.namespaces().values()) == 8 * 25 + 3
    store.close()
    assert opened().verify() == []
