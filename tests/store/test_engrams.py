"""Engrams in segments and catalog: exact, checked, and not in the way of what has none."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from tests.store.conftest import Opener
from tests.store.making import WEIGHTS, made, made_engram, same_bits, same_trace
from v14.errors import StoreError, TraceCorruptError
from v14.store.catalog import CATALOG_VERSION, MIGRATIONS
from v14.store.layout import Layout
from v14.store.segments import Spec, check_dtypes, engram_name, read_keys, read_trace, tensor_names, write_segment
from v14.store.view import views
from v14.types import Engram, Trace

KEY = ("home", "sha256:" + "1" * 64)
FORMAT_1 = Path(__file__).parent / "format1"


def with_engram(seed: int = 7) -> Trace:
    """A trace whose engram has a byte in every field."""
    rng = random.Random(seed)
    while True:
        engram = made_engram(rng)
        if all(tensor.numel() for tensor in engram.tensors().values()):
            return Trace(keys=made(1)[1].keys, values=made(1)[1].values, engram=engram)


def flip(path: Path, name: str) -> None:
    """Change one bit of a tensor's data."""
    with safe_open(path, framework="pt") as file:
        data = file.get_tensor(name).clone().contiguous().view(torch.uint8).numpy().tobytes()
    content = path.read_bytes()
    assert content.count(data) == 1
    place = content.index(data)
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_round_trip(tmp_path_factory, seed):
    path = tmp_path_factory.mktemp("segment") / "s.safetensors"
    trace = Trace(keys=torch.ones(2, 3, 1, 2), values=torch.zeros(2, 3, 1, 2), engram=made_engram(random.Random(seed)))
    write_segment(path, {KEY: trace, ("work", KEY[1]): made(1)[1]}, WEIGHTS, fsync=False)
    assert same_trace(read_trace(path, KEY, Spec.of(trace), WEIGHTS), trace)


def test_names_and_shared_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    eye, ones = torch.eye(3).expand(1, 2, 3, 3), torch.ones(1, 2, 4, 3)
    engram = Engram(
        decay=torch.ones(1, 2), erase_left=eye, erase_right=eye, write_values=ones, write_keys=eye.mT,
        tail=torch.ones(1, 9, 3, dtype=torch.bfloat16).mT.contiguous().mT,
    )  # fmt: skip
    trace = Trace(keys=torch.ones(2, 3, 1, 2), values=torch.zeros(2, 3, 1, 2), engram=engram)
    write_segment(path, {KEY: trace}, WEIGHTS)
    with safe_open(path, framework="pt") as file:
        assert set(file.keys()) == {*tensor_names(*KEY), *(f"home/{KEY[1]}.e.{field}" for field in engram.tensors())}
    assert same_trace(read_trace(path, KEY, Spec.of(trace), WEIGHTS), trace)


@pytest.mark.parametrize("field", list(with_engram().engram.tensors()))
def test_damage_is_found_but_not_by_who_reads_keys(tmp_path: Path, field: str) -> None:
    path = tmp_path / "s.safetensors"
    trace = with_engram()
    write_segment(path, {KEY: trace}, WEIGHTS)
    flip(path, engram_name(*KEY, field))
    with pytest.raises(TraceCorruptError, match=f"e.{field} is not what was stored"):
        read_trace(path, KEY, Spec.of(trace), WEIGHTS)
    assert same_bits(read_keys(path, KEY, Spec.of(trace), WEIGHTS, [0, 3]), trace.keys[[0, 3]])


def test_another_engram_or_none_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    trace = with_engram()
    write_segment(path, {KEY: with_engram(8)}, WEIGHTS)
    with pytest.raises(TraceCorruptError, match=r"\.e\.\w+ is"):
        read_trace(path, KEY, Spec.of(trace), WEIGHTS)
    write_segment(path, {KEY: Trace(keys=trace.keys, values=trace.values)}, WEIGHTS)
    with pytest.raises(TraceCorruptError, match="damaged"):
        read_trace(path, KEY, Spec.of(trace), WEIGHTS)


def test_a_dtype_that_segments_do_not_hold_is_refused() -> None:
    trace = with_engram()
    wide = Engram(**{name: tensor.double() for name, tensor in trace.engram.tensors().items()})
    with pytest.raises(ValueError, match="float64"):
        check_dtypes(Trace(keys=trace.keys, values=trace.values, engram=wide))


def test_an_event_with_a_damaged_engram_is_set_aside(opened: Opener) -> None:
    store = opened()
    event, _ = made(3)
    trace = Trace(keys=made(3)[1].keys, values=made(3)[1].values, engram=with_engram().engram)
    store.put([(event, trace)])
    assert same_trace(store.trace("home", event.id), trace)
    assert store.flush(10)
    assert same_trace(store.trace("home", event.id), trace)
    (segment,) = Layout(root=store.path).segments.iterdir()
    assert segment.stat().st_size == store.stats().num_bytes > trace.num_bytes
    whole = segment.read_bytes()
    flip(segment, engram_name("home", event.id, "tail"))
    with pytest.raises(TraceCorruptError):
        store.trace("home", event.id)
    assert store.stats().num_corrupt == 1
    segment.write_bytes(whole)
    assert store.verify() == []
    assert same_trace(store.trace("home", event.id), trace)


@pytest.mark.parametrize("text", ["{", "[]", '{"tail": 1}', '{"tail": ["float32", [1], "x"]}'])
@pytest.mark.parametrize("read", ["trace", "keys_of_layers", "verify"])
def test_a_row_that_does_not_say_what_its_engram_is_is_set_aside(opened: Opener, text: str, read: str) -> None:
    store = opened()
    store.put([made(1), made(2)])
    assert store.flush(10)
    first, second = made(1)[0], made(2)[0]
    with closing(sqlite3.connect(Layout(root=store.path).catalog)) as connection, connection:
        connection.execute("UPDATE events SET engram = ? WHERE id = ?", (text, first.id))
    if read == "verify":
        assert store.verify() == [("home", first.id)]
    else:
        with pytest.raises(TraceCorruptError, match=first.id):
            store.trace("home", first.id) if read == "trace" else store.keys_of_layers("home", first.id, [0])
    assert store.events("home") == [second]
    assert same_trace(store.trace("home", second.id), made(2)[1])


@pytest.fixture
def format_1(tmp_path: Path) -> Path:
    """A store of events 0 to 2, written by the package when it knew format 1 only."""
    layout = Layout.of(tmp_path, WEIGHTS)
    layout.make()
    shutil.copy(FORMAT_1 / "0000000001.safetensors", layout.segments)
    with closing(sqlite3.connect(layout.catalog)) as connection:
        connection.executescript((FORMAT_1 / "catalog.sql").read_text())
    return tmp_path


def version(home: Path) -> int:
    with closing(sqlite3.connect(Layout.of(home, WEIGHTS).catalog)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_format_1_can_be_looked_at_as_it_is(format_1: Path) -> None:
    assert version(format_1) == 1
    (view,) = views(format_1)
    assert (view.num_events, view.num_corrupt, view.namespaces) == (3, 0, {"home": 3})
    assert version(format_1) == 1


def test_format_1_is_read_and_written_to(format_1: Path, opened: Opener) -> None:
    store = opened()
    assert version(format_1) == CATALOG_VERSION == 2
    assert store.events("home") == [made(number)[0] for number in range(3)]
    store.put([made(3)])
    assert store.flush(10)
    for number in range(4):
        event, trace = made(number)
        assert same_trace(store.trace("home", event.id), trace)
    store.close()
    again = opened()
    assert again.verify() == []
    assert again.stats().num_events == 4
    catalog = sqlite3.connect(Layout.of(format_1, WEIGHTS).catalog)
    with closing(catalog):
        recalled = catalog.execute("SELECT recalled_at FROM events WHERE said_at = 1").fetchall()
        assert recalled == [(50.0,)]


def test_format_1_without_events(tmp_path: Path, opened: Opener, format_1: Path) -> None:
    with closing(sqlite3.connect(Layout.of(format_1, WEIGHTS).catalog)) as connection, connection:
        connection.execute("DELETE FROM events")
    assert opened().stats().num_events == 0
    assert version(format_1) == CATALOG_VERSION


def test_a_migration_that_fails_leaves_format_1(format_1: Path, opened: Opener, monkeypatch) -> None:
    monkeypatch.setattr("v14.store.catalog.MIGRATIONS", (MIGRATIONS[0].replace("TABLE events", "TABLE nowhere"),))
    with pytest.raises(StoreError, match="no such table"):
        opened()
    monkeypatch.undo()
    assert version(format_1) == 1
    assert opened().stats().num_events == 3
