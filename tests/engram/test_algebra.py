"""Laws of composition, and of compression."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engram.making import engram_of, read, stack_of, states_of
from v14.engram import advance, compose, compress, compression_error, stack
from v14.engram.naive import as_affine, identity

KINDS = st.sampled_from(("gated_delta", "mamba2"))
LENGTHS = st.integers(1, 12)
SEEDS = st.integers(0, 2**31)
STRENGTHS = st.sampled_from((0.0, 0.1, 2.0, 300.0))


def same(found, exact, tolerance=1e-4):
    """The same map and the same tail."""
    for one, other in zip(as_affine(found), as_affine(exact), strict=True):
        assert torch.isfinite(one).all()
        assert (one - other).abs().max() <= tolerance * other.abs().max().clamp(min=1)
    assert torch.equal(found.tail, exact.tail)


@settings(max_examples=40)
@given(kind=KINDS, lengths=st.tuples(LENGTHS, LENGTHS, LENGTHS), seed=SEEDS, strength=STRENGTHS)
def test_composition_is_associative(kind, lengths, seed, strength):
    shape = stack_of(kind)
    one, two, three = (
        engram_of(read(shape, length, seed + i, strength=strength), 4) for i, length in enumerate(lengths)
    )
    left = compose(compose(one, two, conv_width=4), three, conv_width=4)
    same(left, compose(one, compose(two, three, conv_width=4), conv_width=4))
    states, inputs = states_of(shape, seed), torch.randn(2, 3, 3)
    for found, exact in zip(advance(states, inputs, [left]), advance(states, inputs, [one, two, three]), strict=True):
        assert torch.allclose(found, exact, atol=1e-4, rtol=1e-4)


@settings(max_examples=20)
@given(kind=KINDS, length=LENGTHS, seed=SEEDS)
def test_the_zero_event_is_neutral(kind, length, seed):
    shape = stack_of(kind)
    engram, nothing = engram_of(read(shape, length, seed), 4), identity(shape)
    same(compose(engram, nothing), engram, 1e-6)
    same(compose(nothing, engram), engram, 1e-6)
    states, inputs = states_of(shape, seed), torch.randn(2, 3, 3)
    found = advance(states, inputs, [nothing])
    assert torch.equal(found[0], states)
    assert torch.equal(found[1], inputs)


@settings(max_examples=40)
@given(kind=KINDS, data=st.data(), length=st.integers(2, 130), seed=SEEDS, strength=STRENGTHS)
def test_splitting_an_event_changes_nothing(kind, data, length, seed, strength):
    at = data.draw(st.integers(1, length - 1))
    layers = read(stack_of(kind), length, seed, strength=strength)
    parts = (engram_of([layer.cut(*cut) for layer in layers], 4) for cut in ((0, at), (at, length)))
    same(compose(*parts, conv_width=4), engram_of(layers, 4))


def test_composing_short_tails():
    shape = stack_of("mamba2")
    whole = [read(shape, 1, seed) for seed in range(2)]
    engrams = [engram_of(layers, 4) for layers in whole]
    assert compose(*engrams).tail.shape == (2, 3, 2)
    assert compose(*engrams, conv_width=2).tail.shape == (2, 3, 1)
    assert compose(*engrams, conv_width=1).tail.shape == (2, 3, 0)


def test_composing_short_convolutions():
    one, two = (stack([], [torch.full((5, 2), float(i))]) for i in range(2))
    composed = compose(one, two, conv_width=4)
    assert torch.equal(composed.tail[0, 0], torch.tensor([0.0, 1, 1]))


DIMS = st.sampled_from(((5, 7), (7, 5), (16, 4), (6, 6)))


@settings(max_examples=25)
@given(kind=KINDS, dims=DIMS, length=st.integers(1, 20), seed=SEEDS)
def test_error_falls_with_rank_to_nothing(kind, dims, length, seed):
    key_dim, value_dim = dims
    engram = engram_of(read(stack_of(kind, key_dim=key_dim, value_dim=value_dim), length, seed), 4)
    ranks = range(max(dims) + 2)
    errors = torch.stack([torch.stack(compression_error(engram, compress(engram, rank))) for rank in ranks])
    assert (errors.diff(dim=0) <= 1e-5).all()
    assert (errors[0, 1] == 1).all()
    assert (errors[0, 0] == (kind == "gated_delta")).all()
    erase_rank, write_rank = min(length, key_dim), min(length, key_dim, value_dim)
    assert errors[erase_rank:, 0].max() < 1e-5
    assert errors[write_rank:, 1].max() < 1e-5


@settings(max_examples=25)
@given(dims=DIMS, length=st.integers(1, 20), rank=st.integers(0, 20), seed=SEEDS)
def test_no_rank_beyond_need(dims, length, rank, seed):
    key_dim, value_dim = dims
    shape = stack_of("gated_delta", key_dim=key_dim, value_dim=value_dim)
    engram = engram_of(read(shape, length, seed), 4)
    kept = compress(engram, rank)
    assert kept.erase_left.shape == kept.erase_right.shape == (2, 4, key_dim, min(rank, length, key_dim))
    assert kept.write_values.shape == (2, 4, value_dim, min(rank, length, key_dim, value_dim))
    assert torch.equal(kept.decay, engram.decay)
    assert torch.equal(kept.tail, engram.tail)


def test_it_is_the_best_cut():
    """The error is the root of the squared singular values left out (Eckart and Young)."""
    engram = engram_of(read(stack_of("gated_delta"), 9, 0), 4)
    kept = compress(engram, 2)
    products = engram.erase_left @ engram.erase_right.mT, engram.write_values @ engram.write_keys.mT
    for found, product in zip(compression_error(engram, kept), products, strict=True):
        values = torch.linalg.svdvals(product)
        expected = values[..., 2:].norm(dim=-1) / values.norm(dim=-1)
        assert torch.allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("rank", [1, 4, 8])
def test_few_ranks_of_many(rank):
    """Where the leading directions are found by iteration: within a percent of the best, the same every time."""
    shape = stack_of("gated_delta", layers=1, heads=4, key_dim=96, value_dim=80)
    engram = engram_of(read(shape, 120, 0, strength=0.05), 4)
    kept = compress(engram, rank)
    assert kept.write_keys.shape[-1] == kept.erase_left.shape[-1] == rank
    products = engram.erase_left @ engram.erase_right.mT, engram.write_values @ engram.write_keys.mT
    for found, product in zip(compression_error(engram, kept), products, strict=True):
        values = torch.linalg.svdvals(product)
        best = values[..., rank:].norm(dim=-1) / values.norm(dim=-1)
        assert (found <= 1.01 * best).all()
        assert (found >= best - 1e-6).all()
    again = compress(engram, rank)
    assert all(torch.equal(tensor, again.tensors()[name]) for name, tensor in kept.tensors().items())


def test_few_ranks_of_few():
    """Iteration is exact where the matrix has no more rank than asked for, whatever the number of its factors."""
    shape = stack_of("mamba2", layers=1, heads=2, key_dim=64, value_dim=64)
    few = engram_of(read(shape, 5, 0), 4)
    redundant = few
    for _ in range(20):  # the same five directions again and again
        redundant = compose(redundant, few)
    assert redundant.write_keys.shape[-1] == 105
    _, error = compression_error(redundant, compress(redundant, 8))
    assert error.max() < 1e-5


@pytest.mark.parametrize("rank", [1, 2, 20])
def test_a_narrow_dtype(rank):
    engram = engram_of(read(stack_of("gated_delta"), 9, 0), 4)
    wide, narrow = compress(engram, rank), compress(engram, rank, dtype=torch.bfloat16)
    assert narrow.write_keys.dtype == narrow.erase_left.dtype == torch.bfloat16
    assert narrow.decay.dtype == torch.float32
    for one, other in zip(compression_error(engram, narrow), compression_error(engram, wide), strict=True):
        assert (one - other).abs().max() < 0.02


def test_nothing_left_to_write():
    """Beta 0 and values 0: the parts are zero matrices, and no error is not a number."""
    shape = stack_of("gated_delta")
    layers = read(shape, 6, 0)
    for layer in layers:
        layer.inputs[1].zero_()
        layer.inputs[3].zero_()
    engram = engram_of(layers, 4)
    for error in compression_error(engram, compress(engram, 2)):
        assert (error == 0).all()


def test_compressing_short_convolutions():
    engram = stack([], [torch.ones(5, 2)])
    assert torch.equal(compress(engram, 1).tail, engram.tail)
