"""Segment files: fixed bytes, exact round trips, partial reads, damage by name."""

import json
import random
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tests.store.making import DTYPES, WEIGHTS, bits, made, noise, same_bits, same_trace
from tests.store.segment_files import read_keys, read_trace, write_segment
from v14.errors import StoreVersionError, TraceCorruptError
from v14.store.segments import METADATA_KEY, tensor_names
from v14.store.spec import Spec
from v14.types import Trace

KEY = ("home", "sha256:" + "1" * 64)


def tiny() -> Trace:
    keys = torch.arange(12, dtype=torch.float32).view(2, 3, 1, 2).to(torch.bfloat16)
    return Trace(keys=keys, values=-keys)


def test_bytes_of_a_segment(tmp_path: Path) -> None:
    """Format 1 is these bytes; another writing of the same traces is another format version."""
    path = tmp_path / "0000000001.safetensors"
    num_bytes = write_segment(path, {KEY: tiny()}, WEIGHTS)
    header = json.dumps(
        {
            "__metadata__": {METADATA_KEY: f'{{"version": 1, "weights_id": "{WEIGHTS}"}}'},
            f"home/{KEY[1]}.k": {"dtype": "BF16", "shape": [2, 3, 1, 2], "data_offsets": [0, 24]},
            f"home/{KEY[1]}.v": {"dtype": "BF16", "shape": [2, 3, 1, 2], "data_offsets": [24, 48]},
        },
        separators=(",", ":"),
    ).encode()
    header += b" " * (-len(header) % 8)
    expected = len(header).to_bytes(8, "little") + header + bits(tiny().keys) + bits(tiny().values)
    assert path.read_bytes() == expected
    assert num_bytes == len(expected)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_digests_of_a_trace() -> None:
    """SHA-256 of each layer's raw bytes, the first 8 of each: keys by layer, then values by layer."""
    assert Spec.of(tiny()) == Spec(
        dtype="bfloat16",
        shape=(2, 3, 1, 2),
        digests=bytes.fromhex("a8c3c50be91f116706df40b3eaf0e55791178a8d8e5d79a1cac05938b975f659"),
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    shape=st.tuples(st.integers(0, 5), st.integers(1, 7), st.integers(0, 3), st.integers(0, 9)),
    dtype=st.sampled_from(DTYPES),
    namespace=st.text(max_size=20),
    strided=st.booleans(),
)
def test_round_trip(tmp_path_factory, seed, shape, dtype, namespace, strided) -> None:
    rng = random.Random(seed)
    keys, values = noise(rng, shape, dtype), noise(rng, shape, dtype)
    if strided:
        values = values.transpose(1, 3).contiguous().transpose(1, 3)
    trace = Trace(keys=keys, values=values)
    path = tmp_path_factory.mktemp("segment") / "s.safetensors"
    key = (namespace, KEY[1])
    write_segment(path, {key: trace, KEY: tiny()}, WEIGHTS, fsync=False)
    expected = tiny() if key == KEY else trace
    spec = Spec.of(expected)
    assert same_trace(read_trace(path, key, spec, WEIGHTS), expected)
    slots = [rng.randrange(spec.shape[0]) for _ in range(3)] if spec.shape[0] else []
    assert same_bits(read_keys(path, key, spec, WEIGHTS, slots), expected.keys[slots])


def test_traces_may_share_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    keys = tiny().keys
    traces = {("a", KEY[1]): Trace(keys=keys, values=keys), ("b", KEY[1]): Trace(keys=keys[:1], values=keys[1:])}
    write_segment(path, traces, WEIGHTS)
    for key, trace in traces.items():
        assert same_trace(read_trace(path, key, Spec.of(trace), WEIGHTS), trace)


def test_unknown_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match="float64"):
        Spec.of(Trace(keys=torch.zeros(1, 1, 1, 1).double(), values=torch.zeros(1, 1, 1, 1).double()))


def test_only_asked_layers_are_read(tmp_path: Path) -> None:
    """Layers beside the asked ones may be rotten: nobody looks at them."""
    path = tmp_path / "s.safetensors"
    _, trace = made(1)
    spec = Spec.of(trace)
    write_segment(path, {KEY: trace}, WEIGHTS)
    data = bytearray(path.read_bytes())
    start = len(data) - trace.num_bytes
    layer_bytes = trace.num_bytes // 8
    data[start + 2 * layer_bytes] ^= 1
    path.write_bytes(data)
    assert same_bits(read_keys(path, KEY, spec, WEIGHTS, [3, 0, 1]), trace.keys[[3, 0, 1]])
    with pytest.raises(TraceCorruptError, match="layer 2"):
        read_keys(path, KEY, spec, WEIGHTS, [1, 2])
    with pytest.raises(TraceCorruptError, match="layer 2"):
        read_trace(path, KEY, spec, WEIGHTS)


def test_other_version_and_other_weights(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    write_segment(path, {KEY: tiny()}, WEIGHTS)
    with pytest.raises(TraceCorruptError, match="belongs to the weights"):
        read_trace(path, KEY, Spec.of(tiny()), "sha256:other")
    stated = json.dumps({"version": 99, "weights_id": WEIGHTS})
    save_file(load_file(path), tmp_path / "new.safetensors", {METADATA_KEY: stated})
    with pytest.raises(StoreVersionError, match=r"new\.safetensors has format 99.*package version"):
        read_trace(tmp_path / "new.safetensors", KEY, Spec.of(tiny()), WEIGHTS)
    save_file(load_file(path), tmp_path / "foreign.safetensors")
    with pytest.raises(TraceCorruptError, match="does not say"):
        read_trace(tmp_path / "foreign.safetensors", KEY, Spec.of(tiny()), WEIGHTS)


def test_missing_tensor_and_wrong_shape(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    name, _ = tensor_names(*KEY)
    write_segment(path, {KEY: tiny()}, WEIGHTS)
    with pytest.raises(TraceCorruptError, match="damaged"):
        read_trace(path, ("work", KEY[1]), Spec.of(tiny()), WEIGHTS)
    other = Trace(keys=tiny().keys.view(2, 3, 2, 1), values=tiny().values.view(2, 3, 2, 1))
    with pytest.raises(TraceCorruptError, match=f"{name} has shape"):
        read_trace(path, KEY, Spec.of(other), WEIGHTS)
    half = Trace(keys=tiny().keys.half(), values=tiny().values.half())
    with pytest.raises(TraceCorruptError, match="not what was stored"):
        read_trace(path, KEY, Spec.of(half), WEIGHTS)
