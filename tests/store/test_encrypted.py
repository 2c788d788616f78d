"""A store with a key: nothing readable on disk that should not be, nothing opens without it, and nothing is lost."""

import os
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.conftest import Opener
from tests.store.making import WEIGHTS, bits, made, same_bits, same_trace
from tests.store.numbers import event, told, trace
from v14.codecs.form import Form
from v14.errors import StoreError, StoreKeyError, TraceCorruptError
from v14.store.keeping import Keeping
from v14.store.layout import Layout
from v14.store.master import parse_key
from v14.store.rotate import rotate

KEY, OTHER = parse_key("a1" * 32, "the test"), parse_key("b2" * 32, "another test")


def everything(home: Path) -> bytes:
    """All bytes of all files."""
    return b"".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())


def test_every_trace_is_exact(opened: Opener) -> None:
    store = opened(master=KEY)
    put = [made(number, namespace) for namespace in ("home", "work") for number in range(12)]
    store.put(put)
    assert store.flush(10)
    store.close()
    store = opened(master=KEY)
    for known, was in put:
        assert known in store.events(known.namespace)
        assert same_trace(store.trace(known.namespace, known.id), was)
        assert same_bits(store.keys_of_layers(known.namespace, known.id, [2, 0]), was.keys[[2, 0]])
    assert store.verify() == []
    assert store.stats().num_corrupt == 0


@pytest.mark.parametrize("form", [Form(), Form(codec="int8"), Form(codec="int4"), Form(only=(0, 1, 2, 3))])
def test_nothing_of_it_stands_on_disk(tmp_path: Path, opened: Opener, form: Form) -> None:
    put = told(0, 1)
    plain = opened(keeping=Keeping(form=form))
    plain.put(put)
    assert plain.flush(10)
    canaries = [struct.pack("<8q", *known.token_ids[:8]) for known, _ in put] + [b"chat-of-0", b"chat-of-1"]
    canaries += [bits(was.keys[layer])[:32] for _, was in put for layer in range(4)] if form.codec == "native" else []
    found = everything(tmp_path)
    assert all(canary in found for canary in canaries)
    plain.close()
    shutil.rmtree(plain.path)
    sealed = opened(keeping=Keeping(form=form), master=KEY)
    sealed.put(put)
    assert sealed.flush(10)
    for state in ("open", "closed"):
        found = everything(tmp_path)
        assert not any(canary in found for canary in canaries), state
        assert KEY.secret not in found
        sealed.close()


@pytest.mark.parametrize("master", [None, OTHER], ids=["missing", "wrong"])
def test_without_its_key_it_does_not_open_and_loses_nothing(tmp_path: Path, opened: Opener, master) -> None:
    store = opened(master=KEY)
    store.put(told(0, 1))
    store.close()
    before = everything(tmp_path)
    with pytest.raises(StoreKeyError, match=rf"encrypted with the key {KEY.id}.*[Nn]othing in it was touched"):
        opened(master=master)
    assert everything(tmp_path) == before
    assert len(opened(master=KEY).events("home")) == 2


def test_a_store_becomes_encrypted_with_what_is_new(opened: Opener) -> None:
    store = opened()
    store.put(told(0))
    store.close()
    store = opened(master=KEY)
    store.put(told(1))
    store.close()
    with pytest.raises(StoreKeyError, match="is encrypted"):
        opened()
    store = opened(master=KEY)
    assert [known.id for known in store.events("home")] == [event(0).id, event(1).id]
    assert all(same_trace(store.trace("home", event(number).id), trace(number)) for number in (0, 1))


def test_records_do_not_open_in_anothers_place(opened: Opener) -> None:
    """Rows of the catalog exchanged by whoever can write to it: the event is set aside, the other one serves."""
    store = opened(master=KEY)
    store.put(told(0, 1))
    assert store.flush(10)
    with closing(sqlite3.connect(Layout(root=store.path).catalog)) as catalog, catalog:
        (tokens,) = catalog.execute("SELECT token_ids FROM events WHERE id = ?", (event(1).id,)).fetchone()
        catalog.execute("UPDATE events SET token_ids = ? WHERE id = ?", (tokens, event(0).id))
    assert [known.id for known in store.events("home")] == [event(1).id]
    assert store.stats().num_corrupt == 1


def test_damage_is_found_layer_by_layer(opened: Opener) -> None:
    store = opened(master=KEY)
    store.put(told(0))
    assert store.flush(10)
    (segment,) = Layout(root=store.path).segments.iterdir()
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    assert same_bits(store.keys_of_layers("home", event(0).id, [0, 1]), trace(0).keys[[0, 1]])
    with pytest.raises(TraceCorruptError, match="layer 3"):
        store.trace("home", event(0).id)


def test_another_master_key_is_one_transaction(tmp_path: Path, opened: Opener) -> None:
    store = opened(master=KEY)
    store.put(told(0))
    assert store.flush(10)
    segments = {path.name: path.stat().st_mtime_ns for path in Layout(root=store.path).segments.iterdir()}
    store.close()
    rotate(tmp_path, WEIGHTS, KEY, OTHER)
    assert {path.name: path.stat().st_mtime_ns for path in Layout(root=store.path).segments.iterdir()} == segments
    with pytest.raises(StoreKeyError, match=OTHER.id):
        opened(master=KEY)
    store = opened(master=OTHER)
    store.put(told(1))
    store.close()
    rotate(tmp_path, WEIGHTS, OTHER, KEY)
    store = opened(master=KEY)
    assert all(same_trace(store.trace("home", event(number).id), trace(number)) for number in (0, 1))
    numbers = [struct.unpack("<I", row.token_ids[:4])[0] for row in store._catalog.rows("home")]
    assert numbers == [1, 2]


def test_what_cannot_be_rotated_stays(tmp_path: Path, opened: Opener) -> None:
    store = opened(master=KEY)
    with pytest.raises(StoreError, match="is being written by process"):
        rotate(tmp_path, WEIGHTS, KEY, OTHER)
    store.close()
    with pytest.raises(StoreKeyError, match=f"encrypted with the key {KEY.id}"):
        rotate(tmp_path, WEIGHTS, OTHER, KEY)
    opened(master=KEY).close()
    shutil.rmtree(store.path)
    opened().close()
    with pytest.raises(StoreKeyError, match="is not encrypted"):
        rotate(tmp_path, WEIGHTS, KEY, OTHER)


def test_files_are_their_owners_alone(tmp_path: Path, opened: Opener) -> None:
    """Also where the process would give them to everybody."""
    mask = os.umask(0)
    try:
        store = opened()
        store.put([made(0), made(1)])
        assert store.flush(10)
        found = {path: path.stat().st_mode & 0o777 for path in [store.path, *store.path.rglob("*")]}
        store.close()
        found |= {path: path.stat().st_mode & 0o777 for path in store.path.rglob("*")}
    finally:
        os.umask(mask)
    assert {path.name: oct(mode) for path, mode in found.items() if mode & 0o077} == {}


def test_files_that_others_could_read_are_closed_to_them(opened: Opener) -> None:
    store = opened()
    store.close()
    layout = Layout(root=store.path)
    layout.catalog.chmod(0o644)
    layout.segments.chmod(0o755)
    store.path.chmod(0o755)
    opened().close()
    assert [path.stat().st_mode & 0o077 for path in (layout.root, layout.segments, layout.catalog)] == [0, 0, 0]
