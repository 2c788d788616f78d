"""Shares of many events at once: plain, for a CPU, and Triton's in its interpreter."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.event_keys import ROWS, case, tally_case
from tests.kernels.test_engram_events import run_apart
from v14.kernels import votes as dispatcher
from v14.kernels.votes import naive, packed

TOLERANCE = {"fp32": 1e-6, "int8": 3e-5, "fp16": 4e-4, "bf16": 2e-3, "sketch": 1e-2}
"""Queries are rounded to 16 bits beside int8 keys, to 10 beside fp16, to 7 beside bf16 ones and sketches, whose
exponentials are within 3% besides."""


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=9),
    num_queries=st.integers(1, 9),
    dim=st.sampled_from([4, 10, 64]),
    kind=st.sampled_from(["fp32", "int8", "bf16", "sketch"]),
    chunk=st.sampled_from([1, 100, 1 << 20]),
)
def test_packed_agrees_with_naive(lengths, num_queries, dim, kind, chunk):
    arguments = case(kind, lengths, num_queries, dim)
    exact = naive.event_shares(*arguments)
    assert exact.shape == (len(ROWS), len(lengths))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "CHUNK_SCORES", chunk)
        torch.testing.assert_close(dispatcher.event_shares(*arguments), exact, atol=1e-6, rtol=1e-5)


def test_no_events_take_nothing():
    keys, scales, starts, lengths, asked = case("int8", [3], 2, 4)
    for module in (naive, packed):
        assert module.event_shares(keys, scales, starts[:0], lengths[:0], asked).shape == (len(ROWS), 0)


@pytest.mark.parametrize("floor", [None, 0.01])
@pytest.mark.parametrize("picked", [False, True])
def test_votes_are_tallied_alike(floor, picked):
    arguments = tally_case(50, floor, picked=picked)
    found, exact = dispatcher.tally(*arguments), naive.tally(*arguments)
    assert exact.isinf().any()
    torch.testing.assert_close(found, exact)


def test_triton_agrees_with_naive():
    *_, results = run_apart("tests.kernels.interpret_votes", TRITON_INTERPRET="1")
    found = {result["case"]: result["error"] for result in json.loads(results)}
    assert len(found) >= 22
    for name, error in found.items():
        assert error is not None, f"{name}: not finite, or of another shape"
        assert error < TOLERANCE[name.rsplit("-", 1)[1]], name


def test_triton_compiles_for_a_gpu(tmp_path):
    lines = run_apart("tests.kernels.compile_votes", TRITON_CACHE_DIR=str(tmp_path), TRITON_INTERPRET="0")
    assert lines == [
        "_event_shares int8 True",
        "_event_shares sketch True",
        "_event_shares bf16 True",
        "_tally fp32 True",
    ]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["fp32", "int8", "fp16", "bf16", "sketch"])
@pytest.mark.parametrize(("num_queries", "dim"), [(1, 64), (33, 80), (129, 128), (64, 256)])
def test_triton_agrees_with_naive_on_a_gpu(kind, num_queries, dim):
    arguments = case(kind, [1, 128, 17, 0, 3, 64], num_queries, dim, device="cuda")
    found, exact = dispatcher.event_shares(*arguments), naive.event_shares(*arguments)
    assert (found - exact).abs().max() < TOLERANCE[kind]


@pytest.mark.gpu
@pytest.mark.parametrize("floor", [None, 0.01])
@pytest.mark.parametrize("picked", [False, True])
def test_votes_are_tallied_alike_on_a_gpu(floor, picked):
    arguments = tally_case(1000, floor, picked=picked, device="cuda")
    torch.testing.assert_close(dispatcher.tally(*arguments), naive.tally(*arguments), atol=1e-5, rtol=1e-5)
