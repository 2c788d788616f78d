"""Forgetting: gone for every call, gone from every file, whatever else goes on; the rest stays as it was."""

import errno
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.conftest import Opener
from tests.store.making import WEIGHTS, bits, made, same_trace
from tests.store.test_failing import refuse, wait_until
from v14.errors import StoreError
from v14.store.audit import namespace_digest
from v14.store.directory import DirectoryStore
from v14.store.forget import Selection, forget
from v14.store.layout import Layout
from v14.store.policies import Policy
from v14.types import Link


def needles(number: int, namespace: str = "home") -> dict[str, bytes]:
    """What must not be found anywhere of an event that is forgotten: its tokens, its id, parts of its trace.

    Short events of two namespaces may say the same; what the other one says may stay.
    """
    event, trace = made(number, namespace)
    tokens = b"".join(token.to_bytes(8, "little") for token in event.token_ids)
    found = {"tokens": tokens, "id": event.id.encode()}
    found |= {"keys": bits(trace.keys[0]), "values": bits(trace.values[-1])}
    other, _ = made(number, "work")
    theirs = other.id.encode() + b"".join(token.to_bytes(8, "little") for token in other.token_ids)
    return {name: part for name, part in found.items() if len(part) >= 12 and part not in theirs}


def left(home: Path, numbers: list[int], namespace: str = "home") -> list[str]:
    """Where anything of the events is left, in files or their names."""
    found = []
    for path in home.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        for number in numbers:
            for name, needle in needles(number, namespace).items():
                if needle in content or needle in str(path).encode():
                    found.append(f"{name} of {number} in {path.name}")
    return found


def ids(*numbers: int, namespace: str = "home") -> list[str]:
    return [made(number, namespace)[0].id for number in numbers]


def whole(store: DirectoryStore, *numbers: int, namespace: str = "home") -> bool:
    """Whether the namespace holds these events exactly."""
    expected = [made(number, namespace) for number in numbers]
    return store.events(namespace) == [event for event, _ in expected] and all(
        same_trace(store.trace(namespace, event.id), trace) for event, trace in expected
    )


@pytest.fixture
def filled(opened: Opener) -> DirectoryStore:
    """Events 0 to 9 in two segments, in two namespaces of the same ids."""
    store = opened(clock=lambda: 1000.0)
    for numbers in (range(5), range(5, 10)):
        store.put([made(number, namespace) for number in numbers for namespace in ("home", "work")])
        assert store.flush(10)
    return store


@pytest.mark.parametrize("gone", [[3], [0, 9], list(range(5)), list(range(10))])
def test_committed_events(filled: DirectoryStore, opened: Opener, gone: list[int]) -> None:
    home = filled.path
    assert left(home, gone), "the needles are found as long as they are there"
    assert filled.forget("home", [*ids(*gone), "sha256:unknown"]) == len(gone)
    kept = [number for number in range(10) if number not in gone]
    for store in (filled, None):
        if store is None:
            filled.close()
            store = opened()
        assert left(home, gone) == []
        assert whole(store, *kept)
        assert whole(store, *range(10), namespace="work")
        assert store.verify() == []
        assert store.stats().num_bytes == sum(path.stat().st_size for path in (home / "segments").iterdir())
        for event_id in ids(*gone):
            with pytest.raises(KeyError):
                store.trace("home", event_id)
    store.put([made(gone[0])])
    assert store.flush(10)
    assert whole(store, *sorted([*kept, gone[0]])), "said again, it is stored again"
    assert store.forget("home", ids(gone[0])) == 1
    assert left(home, gone) == []


def test_pending_events(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a commit was tried: its file is there, its rows are not."""
    store = opened()
    store._catalog._writer.execute("PRAGMA query_only = ON")
    store.put([made(0), made(1)])
    assert store.flush(10)
    wait_until(lambda: bool(left(store.path, [0])))
    store._catalog._writer.execute("PRAGMA query_only = OFF")
    assert store.forget("home", ids(0)) == 1
    wait_until(lambda: store.stats().num_pending == 0)
    assert whole(store, 1)
    assert left(store.path, [0]) == []


def test_while_it_is_being_committed(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    started, go_on = threading.Event(), threading.Event()
    fsync = os.fsync

    def slowly(descriptor: int) -> None:
        started.set()
        assert go_on.wait(10)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slowly)
    store.put([made(0), made(1)])
    assert started.wait(10)
    answers: list[int] = []
    forgetting = threading.Thread(target=lambda: answers.append(store.forget("home", ids(0))))
    forgetting.start()
    go_on.set()
    forgetting.join(10)
    assert answers == [1]
    assert whole(store, 1)
    assert left(store.path, [0]) == []


def test_readers_meet_segments_that_move(filled: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that began in the old segment ends in the new one, and sets nothing aside."""
    read = filled._segments.blobs.read

    def late(name: str, ranges: list[tuple[int, int]]) -> object:
        monkeypatch.undo()
        filled.forget("home", ids(0))
        return read(name, ranges)

    monkeypatch.setattr(filled._segments.blobs, "read", late)
    assert same_trace(filled.trace("home", ids(1)[0]), made(1)[1])
    assert filled.stats().num_corrupt == 0


def test_selections(filled: DirectoryStore) -> None:
    assert [event.chat_id for event in filled.events("home")] == [f"chat-{number % 3}" for number in range(10)]
    assert forget(filled, "home", Selection(chat_id="chat-1")) == 3
    assert whole(filled, 0, 2, 3, 5, 6, 8, 9)
    assert forget(filled, "home", Selection(since=3.0, until=6.0), requested_by="r-1") == 2
    assert whole(filled, 0, 2, 6, 8, 9)
    filled.put([(replace(made(0)[0], said_at=7.0), made(0)[1])])
    assert forget(filled, "home", Selection(chat_id="chat-0", since=7.0)) == 2, (
        "what was said again counts as said then"
    )
    assert whole(filled, 2, 6, 8)
    assert forget(filled, "home", Selection(ids=tuple(ids(2)))) == 1
    filled.put([made(11)])
    assert forget(filled, "home", Selection()) == 3
    assert filled.events("home") == []
    assert whole(filled, *range(10), namespace="work")
    assert left(filled.path, [*range(10), 11]) == []
    assert forget(filled, "home", Selection()) == 0
    records = filled.audit()
    assert [(record.selection, record.num_events) for record in records] == [
        ("chat", 3), ("between", 2), ("chat-between", 2), ("event", 1), ("namespace", 3),
    ]  # fmt: skip
    assert {record.namespace_digest for record in records} == {namespace_digest("home")}
    assert records[1].requested_by == "r-1"
    assert all(record.at == record.finished_at == 1000.0 and record.action == "forget" for record in records)
    for bad in ({"ids": (), "chat_id": "c"}, {"since": 2.0, "until": 2.0}):
        with pytest.raises(ValueError, match=r"select|said"):
            Selection(**bad)


def test_links_and_names_of_chats_go_too(opened: Opener) -> None:
    """A chat may be named after its first event; an id is a hash of what it says, which may be guessed."""
    store = opened()
    first, _ = made(0)
    events = [(replace(event, chat_id=first.id), trace) for event, trace in map(made, range(4))]
    store.put(events)
    store.link("home", [Link(source=first.id, target=ids(1)[0], kind="association")])
    assert store.flush(10)
    assert store.forget("home", [first.id]) == 1
    assert store.links("home") == []
    (chat,) = {event.chat_id for event in store.events("home")}
    assert chat.startswith("chat-")
    assert left(store.path, [0]) == []


def test_set_aside_events_go_and_damage_is_not_carried_on(filled: DirectoryStore) -> None:
    (first, _) = sorted((filled.path / "segments").iterdir())
    content = first.read_bytes()
    place = content.index(bits(made(1)[1].values[-1]))
    first.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    (corrupt,) = filled.verify()
    assert filled.forget(corrupt[0], [corrupt[1]]) == 1
    assert filled.stats().num_corrupt == 0
    assert filled.verify() == []


def test_a_segment_that_cannot_be_read_goes_all_the_same(filled: DirectoryStore) -> None:
    first, second = sorted((filled.path / "segments").iterdir())
    first.write_bytes(b"\xff" * first.stat().st_size)
    assert filled.forget("home", ids(0)) == 1
    assert not first.exists()
    assert filled.stats().num_corrupt == 9
    assert whole(filled, *range(5, 10))
    assert second.exists()


@pytest.mark.parametrize("function", ["replace", "fsync", "pwrite", "unlink"])
def test_a_disk_that_fails_meanwhile(filled: DirectoryStore, opened: Opener, monkeypatch, function: str) -> None:
    """Either nothing is forgotten, or it is and what is left in files goes later."""
    with monkeypatch.context() as patch:
        patch.setattr(os, function, refuse(errno.EIO))
        with pytest.raises(StoreError) as caught:
            filled.forget("home", ids(0))
        assert (
            whole(filled, *range(10)) if "nothing was forgotten" in str(caught.value) else whole(filled, *range(1, 10))
        )
    if "nothing was forgotten" in str(caught.value):
        filled.forget("home", ids(0))
    filled._writer.run(filled._tend)
    assert left(filled.path, [0]) == []
    assert whole(filled, *range(1, 10))
    assert filled._catalog.finished()


def test_another_reader_delays_the_end_only(filled: DirectoryStore) -> None:
    filled._catalog._writer.execute("PRAGMA busy_timeout = 10")
    with closing(sqlite3.connect(Layout(root=filled.path).catalog, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        with pytest.raises(StoreError, match="another process reads"):
            filled.forget("home", ids(0))
        assert whole(filled, *range(1, 10))
        assert not filled._catalog.finished()
    filled._writer.run(filled._tend)
    assert filled._catalog.finished()
    assert left(filled.path, [0]) == []


def test_a_crash_at_every_step(filled: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each one the store opens, has all the rest, and has the event whole or nothing of it."""
    album = tmp_path / "album"
    steps: list[str] = []

    def shoot(step: str) -> None:
        shutil.copytree(filled.path, album / str(len(steps)) / filled.path.name)
        steps.append(step)

    def watched(name: str) -> None:
        function = getattr(os, name)

        def shooting(*args: object, **options: object) -> object:
            shoot(name)
            return function(*args, **options)

        monkeypatch.setattr(os, name, shooting)

    for name in ("replace", "fsync", "pwrite", "unlink"):
        watched(name)
    filled._catalog._writer.set_trace_callback(lambda sql: shoot(sql.split()[0]))
    filled.forget("home", ids(0))
    filled._catalog._writer.set_trace_callback(None)
    monkeypatch.undo()
    shoot("end")
    outcomes = []
    for number in range(len(steps)):
        with closing(DirectoryStore.open(album / str(number), WEIGHTS)) as store:
            there = bool(store.has("home", ids(0)))
            assert whole(store, *range(not there, 10)), steps[number]
            assert whole(store, *range(10), namespace="work")
            assert there or left(store.path, [0]) == [], steps[number]
        outcomes.append(there)
    assert outcomes == sorted(outcomes, reverse=True), "once forgotten, always forgotten"
    assert {True, False} == set(outcomes)
    print(f"{len(steps)} steps: {' '.join(steps)}")


def test_expiry(opened: Opener) -> None:
    now = 10.0
    store = opened(clock=lambda: now, tend_s=3600)
    store.put([made(number, namespace) for number in range(5) for namespace in ("home", "work")])
    assert store.flush(10)
    store.put([made(5)])
    store.set_policy("home", Policy(ttl_s=8.0))
    assert store.policies() == {"home": Policy(ttl_s=8.0)}
    assert whole(store, 3, 4, 5), "what is over is not there at once"
    assert store.has("home", ids(*range(6))) == set(ids(3, 4, 5))
    assert store.namespaces() == {"home": 3, "work": 5}
    for call in (store.trace, lambda namespace, event_id: store.get(namespace, [event_id])):
        with pytest.raises(KeyError):
            call("home", ids(2)[0])
    assert left(store.path, [0, 1, 2])
    store.put([(replace(made(4)[0], said_at=9.0), made(4)[1])])
    now = 12.0
    assert store.has("home", ids(3, 4, 5)) == {*ids(4, 5)}
    store._writer.run(store._tend)
    assert left(store.path, [0, 1, 2, 3]) == []
    assert store.has("home", ids(4)), "said again in time"
    assert whole(store, *range(5), namespace="work")
    (record,) = store.audit()
    assert (record.action, record.selection, record.num_events) == ("expire", "ttl", 4)
    store.put([made(1)])
    assert not store.has("home", ids(1)), "said too long ago"
    store.put([(replace(made(1)[0], said_at=11.0), made(1)[1])])
    assert store.has("home", ids(1))
    store.close()
    again = opened(clock=lambda: 100.0, tend_s=0.01)
    wait_until(lambda: len(again.audit()) == 2)
    assert again.namespaces() == {"work": 5}
    again.set_policy("home", Policy())
    again.put([made(1)])
    assert again.has("home", ids(1))
