"""Laws of moving keys: there and back is nothing, and a query meets a key by their distance alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny import FAMILIES, geometry_of, tiny_checkpoint
from v14.geometry import Rotary
from v14.reinstate.rotation import move_keys, rotate

HALF = 8
ROTARY = Rotary(inv_freq=tuple(10_000.0 ** (-i / HALF) for i in range(HALF)))
POSITIONS = st.integers(0, 100_000)


def vectors(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(seed=st.integers(0, 999), delta=st.integers(-100_000, 100_000), dim=st.sampled_from([2 * HALF, 2 * HALF + 5]))
def test_there_and_back(seed, delta, dim):
    keys = vectors(seed, 3, 2, dim)
    torch.testing.assert_close(rotate(rotate(keys, ROTARY, delta), ROTARY, -delta), keys, atol=1e-5, rtol=0)


@given(seed=st.integers(0, 999), first=POSITIONS, second=POSITIONS)
def test_two_moves_are_one(seed, first, second):
    keys = vectors(seed, 4, 2 * HALF)
    twice = rotate(rotate(keys, ROTARY, first), ROTARY, second)
    torch.testing.assert_close(twice, rotate(keys, ROTARY, first + second), atol=1e-5, rtol=0)


@given(seed=st.integers(0, 999), query_at=POSITIONS, key_at=POSITIONS, shift=POSITIONS)
def test_scores_depend_on_distance_only(seed, query_at, key_at, shift):
    query, key = vectors(seed, 2 * HALF), vectors(seed + 1, 2 * HALF)
    score = rotate(query, ROTARY, query_at) @ rotate(key, ROTARY, key_at)
    shifted = rotate(query, ROTARY, query_at + shift) @ rotate(key, ROTARY, key_at + shift)
    torch.testing.assert_close(shifted, score, atol=1e-4, rtol=0)


def test_what_is_not_rotary_stays():
    keys = vectors(0, 4, 2 * HALF + 5)
    assert torch.equal(rotate(keys, ROTARY, 77)[..., 2 * HALF :], keys[..., 2 * HALF :])
    assert rotate(keys, None, 77) is keys


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_turns_by_its_own_rotary(family):
    geometry = geometry_of(tiny_checkpoint(family))
    keys = vectors(1, len(geometry.layers), 6, geometry.num_kv_heads, geometry.head_dim)
    moved = move_keys(keys, geometry, 321)
    for slot, layer in enumerate(geometry.layers):
        assert torch.equal(moved[slot], rotate(keys[slot], layer.rotary, 321))
    torch.testing.assert_close(move_keys(moved, geometry, -321), keys, atol=1e-5, rtol=0)
