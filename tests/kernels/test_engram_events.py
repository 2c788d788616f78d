"""Kernels of events: plain, through factors, and Triton's in its interpreter."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.engram.making import read, stack_of, states_of
from v14.engram import advance, compress, stack
from v14.kernels import engram as dispatcher
from v14.kernels.engram import factored, naive

ROOT = Path(__file__).parent.parent.parent
BOUNDS = (0, 1, 4, 4, 68, 70)


def run_apart(module, **environ):
    """What another Python process prints: whether Triton interprets is decided when it is imported."""
    pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot be run or compiled here")
    run = subprocess.run(
        [sys.executable, "-m", module],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"} | environ,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.fixture(scope="module")
def interpreted():
    """Errors of the Triton kernels by case."""
    *_, results = run_apart("tests.kernels.interpret", TRITON_INTERPRET="1")
    return {result["case"]: result["error"] for result in json.loads(results)}


def test_triton_compiles_for_a_gpu(tmp_path):
    lines = run_apart("tests.kernels.compile", TRITON_CACHE_DIR=str(tmp_path), TRITON_INTERPRET="0")
    assert lines == ["_gated_delta True", "_gated_delta True", "_mamba2 True"]


def test_triton_agrees_with_naive(interpreted):
    """To fp32's rounding of products, and of sums of log decays over a chunk of 64, of which differences are taken."""
    assert len(interpreted) >= 50
    for case, error in interpreted.items():
        *_, strength = case.rsplit("-", 1)
        strongest = float(strength) if strength[0].isdigit() else 1.0
        assert error is not None, f"{case}: not finite, or of another shape"
        assert error < 5e-6 + 64 * strongest * 1.2e-7, case


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 3e-3)], ids=["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["gated_delta", "mamba2"])
def test_triton_agrees_with_naive_on_a_gpu(kind, dtype, tolerance):
    """tf32 keeps 10 bits: what bfloat16 inputs lose to it is a few 2 ** -11, of fp32 inputs next to nothing."""
    shape = stack_of(kind, layers=1, heads=6, key_dim=128, value_dim=96)
    (layer,) = read(shape, 400, seed=1, groups=2, strength=0.1)
    rounded = [tensor.to("cuda", dtype if tensor.dim() == 3 else torch.float32) for tensor in layer.inputs]
    bounds = torch.tensor([0, 1, 60, 188, 188, 251, 400], dtype=torch.int32, device="cuda")
    found = getattr(dispatcher, f"{kind}_events")(*rounded, bounds)
    exact = getattr(naive, f"{kind}_events")(*rounded, bounds)
    for one, other in zip(found, exact, strict=True):
        assert (one is None) == (other is None)
        assert one is None or (one - other).abs().max() <= tolerance * other.abs().max()


@pytest.mark.parametrize("kind", ["gated_delta", "mamba2"])
def test_factored_agrees_with_naive(kind):
    (layer,) = read(stack_of(kind, layers=1), BOUNDS[-1], seed=1, strength=0.1)
    bounds = torch.tensor(BOUNDS, dtype=torch.int32)
    name = f"{kind}_events"
    exact = getattr(naive, name)(*layer.inputs, bounds)
    assert exact.decay.shape == (5, 4)
    assert exact.write.shape == (5, 4, 7, 5)
    for module in (factored, dispatcher):
        found = getattr(module, name)(*layer.inputs, bounds)
        for one, other in zip(found, exact, strict=True):
            assert (one is None) == (other is None)
            assert one is None or torch.allclose(one, other, atol=1e-5, rtol=1e-4)


def test_naive_is_the_affine_map_of_each_event():
    (layer,) = read(stack_of("gated_delta", layers=1), BOUNDS[-1], seed=1, strength=0.1)
    events = naive.gated_delta_events(*layer.inputs, torch.tensor(BOUNDS, dtype=torch.int32))
    a, b = layer.cut(4, 68).affine()
    assert torch.allclose(events.decay[3][:, None, None] * (torch.eye(5) - events.erase[3]), a, atol=1e-6)
    assert torch.allclose(events.write[3], b, atol=1e-5)


def test_an_event_of_no_tokens_does_nothing():
    (layer,) = read(stack_of("gated_delta", layers=1), BOUNDS[-1], seed=1)
    for module in (naive, factored):
        events = module.gated_delta_events(*layer.inputs, torch.tensor(BOUNDS, dtype=torch.int32))
        assert (events.decay[2] == 1).all()
        assert not events.erase[2].any()
        assert not events.write[2].any()


def test_keys_are_normalised_where_asked():
    (layer,) = read(stack_of("gated_delta", layers=1), 9, seed=1)
    keys, *rest = layer.inputs
    bounds = torch.tensor([0, 9], dtype=torch.int32)
    for module in (naive, factored, dispatcher):
        found = module.gated_delta_events(5 * keys, *rest, bounds, normalise=True)
        exact = module.gated_delta_events(keys, *rest, bounds)
        assert torch.allclose(found.erase, exact.erase, atol=1e-5)
        assert torch.allclose(found.write, exact.write, atol=1e-5)


@pytest.mark.parametrize("kind", ["gated_delta", "mamba2"])
def test_events_as_engrams(kind):
    """Advancing by what the kernels found is reading the tokens; so it is behind a cut to full rank."""
    shape = stack_of(kind, layers=1)
    (layer,) = read(shape, BOUNDS[-1], seed=1, strength=0.1)
    events = getattr(naive, f"{kind}_events")(*layer.inputs, torch.tensor(BOUNDS, dtype=torch.int32))
    engrams = [stack([events.factors(event)], [torch.empty(3, 0)]) for event in range(len(BOUNDS) - 1)]
    states = states_of(shape, 2)
    exact = layer.state(states[0])
    for kept in (engrams, [compress(engram, 5) for engram in engrams]):
        found, _ = advance(states, torch.empty(1, 3, 0), kept)
        assert torch.allclose(found[0], exact, atol=1e-5)
