"""Engrams in segments and catalog: exact, checked, and not in the way of what has none."""

import random
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
from tests.store.segment_files import read_keys, read_trace, write_segment
from v14.errors import TraceCorruptError
from v14.store.layout import Layout
from v14.store.segments import engram_name, tensor_names
from v14.store.spec import Spec, check_dtypes
from v14.types import Engram, Trace

KEY = ("home", "sha256:" + "1" * 64)


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
    with pytest.raises(TraceCorruptError, match=r"\.e\.\w+ has shape"):
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
