"""A catalog that is lost or damaged is made again from the segments; what is set aside can be dropped."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.conftest import Opener
from tests.store.making import WEIGHTS, made, same_trace
from tests.store.test_forget import ids, left, whole
from v14.errors import StoreError, StoreKeyError, TraceCorruptError
from v14.store.directory import DirectoryStore
from v14.store.layout import Layout
from v14.store.notes import read_note, write_note
from v14.store.repair import drop_set_aside, rebuild
from v14.store.row import Row
from v14.store.seal import MasterKey
from v14.store.spec import Spec

MASTER = MasterKey(source="test", secret=bytes(32))


def test_what_is_moved_while_it_is_verified_is_not_damaged(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    store.put([made(0), made(1)])
    assert store.flush(10)
    judge = store._whole

    def rewritten_first(row: Row) -> bool:
        monkeypatch.setattr(store, "_whole", judge)
        assert store.forget("home", ids(1)) == 1
        return judge(row)

    monkeypatch.setattr(store, "_whole", rewritten_first)
    assert store.verify() == []
    assert store.stats().num_corrupt == 0
    assert same_trace(store.trace("home", made(0)[0].id), made(0)[1])


@pytest.mark.parametrize("damage", ["lost", "overwritten", "another's"])
def test_a_catalog_is_made_again(tmp_path: Path, opened: Opener, damage: str) -> None:
    store = opened()
    store.put([made(number, namespace) for number in range(8) for namespace in ("home", "work")])
    assert store.flush(10)
    store.put([made(number) for number in range(8, 12)])
    assert store.forget("home", ids(3, 9)) == 2
    store.close()
    catalog = Layout(root=store.path).catalog
    if damage == "lost":
        catalog.unlink()
    elif damage == "overwritten":
        catalog.write_bytes(b"\xff" * 8192)
    else:
        with closing(sqlite3.connect(catalog)) as connection, connection:
            connection.execute("UPDATE store SET weights_id = 'sha256:other'")
    rebuilt = rebuild(tmp_path, WEIGHTS, None)
    assert (rebuilt.num_events, rebuilt.num_without_note, rebuilt.num_damaged) == (18, 0, 0)
    again = opened()
    assert whole(again, 0, 1, 2, 4, 5, 6, 7, 8, 10, 11)
    assert whole(again, *range(8), namespace="work")
    assert again.verify() == []
    assert (damage == "lost") != catalog.with_name(f"{catalog.name}.damaged").exists()
    aside = [path for path in store.path.iterdir() if path.name.endswith(".damaged")]
    for path in aside:
        path.unlink()
    assert left(store.path, [3, 9]) == [], "what was forgotten does not come back"


def test_damaged_segments_and_those_without_notes(tmp_path: Path, opened: Opener) -> None:
    store = opened()
    for number in range(3):
        store.put([made(number)])
        assert store.flush(10)
    first, second, _ = sorted((store.path / "segments").iterdir())
    store._segments.write(second.name, {("home", ids(1)[0]): made(1)[1]})
    store.close()
    first.write_bytes(first.read_bytes()[:-1])
    rebuilt = rebuild(tmp_path, WEIGHTS, None)
    assert (rebuilt.num_events, rebuilt.num_without_note, rebuilt.num_damaged) == (1, 1, 1)
    with pytest.raises(StoreError, match="from an earlier repair"):
        rebuild(tmp_path, WEIGHTS, None)
    assert whole(opened(), 2)


def test_a_store_in_use_is_not_repaired(tmp_path: Path, opened: Opener) -> None:
    store = opened()
    store.put([made(0)])
    with pytest.raises(StoreError, match="is being written"):
        rebuild(tmp_path, WEIGHTS, None)
    assert whole(store, 0)
    with pytest.raises(StoreError, match="no store of"):
        rebuild(tmp_path, "sha256:ff", None)


def test_an_encrypted_store_needs_its_keys(tmp_path: Path, opened: Opener) -> None:
    store = opened(master=MASTER)
    store.put([made(0), made(1)])
    store.close()
    catalog = Layout(root=store.path).catalog
    with closing(sqlite3.connect(catalog)) as connection, connection:
        connection.execute("DELETE FROM events")
    assert rebuild(tmp_path, WEIGHTS, MASTER).num_events == 2
    store = opened(master=MASTER)
    assert whole(store, 0, 1)
    store.close()
    for path in store.path.glob("*.damaged"):
        path.unlink()
    catalog.write_bytes(b"\xff" * 8192)
    with pytest.raises(StoreKeyError, match="held the keys"):
        rebuild(tmp_path, WEIGHTS, MASTER)
    assert catalog.exists(), "and nothing was touched"


def test_what_is_set_aside_can_be_dropped(opened: Opener) -> None:
    store = opened()
    for number in range(3):
        store.put([made(number)])
        assert store.flush(10)
    (store.path / "segments" / "0000000001.safetensors").unlink()
    assert store.verify() == [("home", ids(0)[0])]
    assert drop_set_aside(store) == 1
    assert store.stats().num_corrupt == 0
    assert whole(store, 1, 2)
    assert store.audit()[-1].selection == "set-aside"


def test_notes_lead_back() -> None:
    event, trace = made(3)
    row = Row.of(event, Spec.of(trace), "s.safetensors", stored_at=1.0, recalled_at=2.0)
    note = write_note(row)
    assert read_note(note, "t.safetensors") == replace(row, segment="t.safetensors")
    for bad in (b"", b"{}\n", note[:-1], note + bytes(8), note.replace(b'"home"', b"[1]"), b"[" * 100_000):
        with pytest.raises(TraceCorruptError, match="note"):
            read_note(bad, "s")
    assert same_trace(trace, made(3)[1])


def test_every_commit_writes_notes(opened: Opener) -> None:
    store: DirectoryStore = opened()
    store.put([made(0)])
    assert store.flush(10)
    (segment,) = (store.path / "segments").iterdir()
    assert f"home/{ids(0)[0]}.r".encode() in segment.read_bytes()


def test_segments_that_were_merged_have_notes_too(tmp_path: Path, opened: Opener) -> None:
    store = opened()
    for number in range(20):
        store.put([made(number)])
        assert store.flush(10)
    assert store._tender is not None
    assert store._writer.run(store._tender.merge)
    store.close()
    Layout(root=store.path).catalog.unlink()
    rebuilt = rebuild(tmp_path, WEIGHTS, None)
    assert (rebuilt.num_events, rebuilt.num_without_note, rebuilt.num_damaged) == (20, 0, 0)
