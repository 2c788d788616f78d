"""Factors of an event against the token-by-token recurrence, and that recurrence against Transformers' own."""

import pytest
import torch
from transformers.models.qwen3_5.modeling_qwen3_5 import torch_recurrent_gated_delta_rule

from tests.engram.making import engram_of, read, stack_of, states_of
from v14.engram import advance, conv_tail, gated_delta, mamba2, naive, stack
from v14.engram.naive import as_affine

KINDS = ("gated_delta", "mamba2")
LENGTHS = (1, 3, 64, 127, 128)


def close(found, exact, tolerance=1e-5):
    assert found.shape == exact.shape
    assert torch.isfinite(found).all()
    assert (found - exact).norm() <= tolerance * exact.norm().clamp(min=1e-20)


def test_naive_gated_delta_is_transformers():
    torch.manual_seed(0)
    keys, values = torch.randn(9, 2, 5), torch.randn(9, 4, 7)
    log_decay, beta, state = -torch.rand(9, 4), torch.rand(9, 4), torch.randn(4, 7, 5)
    repeated = keys.repeat_interleave(2, dim=1)
    _, theirs = torch_recurrent_gated_delta_rule(
        *(tensor[None] for tensor in (repeated, repeated, values, log_decay, beta)),
        initial_state=state.mT[None], output_final_state=True, use_qk_l2norm_in_kernel=True,
    )  # fmt: skip
    close(naive.gated_delta(state, gated_delta.normalise(keys), values, log_decay, beta), theirs[0].mT)


def test_naive_mamba2_by_hand():
    """Two tokens, one number: S = e^{-1·2} (e^{-1·1} S + 1·5·7) + 2·3·11."""
    x, b = torch.tensor([5.0, 3.0]).view(2, 1, 1), torch.tensor([7.0, 11.0]).view(2, 1, 1)
    dt, a = torch.tensor([[1.0], [2.0]]), torch.tensor([-1.0])
    expected = torch.tensor(-2.0).exp() * (torch.tensor(-1.0).exp() * 13 + 35) + 66
    close(naive.mamba2(torch.full((1, 1, 1), 13.0), x, b, dt, a), expected.view(1, 1, 1))


@pytest.mark.parametrize("num_tokens", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_factors_are_the_exact_affine_map(kind, num_tokens, groups):
    (layer,) = read(stack_of(kind, layers=1), num_tokens, seed=num_tokens, groups=groups, strength=0.05)
    factors = layer.factors()
    rank = num_tokens if kind == "gated_delta" else 0
    assert factors.erase_left.shape == factors.erase_right.shape == (4, 5, rank)
    assert factors.write_values.shape == (4, 7, num_tokens)
    assert factors.write_keys.shape == (4, 5, num_tokens)
    exact_a, exact_b = layer.affine()
    (a,), (b,) = as_affine(stack([factors], [torch.empty(3, 0)]))
    # A is decay · (I − …): what a long event erased nearly wholly is exact to the rounding of I, not of what is left.
    assert ((a - exact_a).abs().amax((1, 2)) <= 1e-5 * factors.decay).all()
    close(b, exact_b)


@pytest.mark.parametrize("kind", KINDS)
def test_advance_is_token_by_token(kind):
    """Events one behind the other leave the states, and the convolution its inputs, of one long reading."""
    shape = stack_of(kind)
    states, inputs = states_of(shape, 1), torch.randn(2, 3, 3)
    exact, conv, engrams = list(states), list(inputs.mT), []
    for seed, num_tokens in enumerate((2, 64, 1, 1, 17)):
        layers = read(shape, num_tokens, seed, strength=0.1)
        exact = [layer.state(state) for layer, state in zip(layers, exact, strict=True)]
        conv = [torch.cat([old, layer.conv]) for layer, old in zip(layers, conv, strict=True)]
        engrams.append(engram_of(layers, shape.conv_width))
        found, found_inputs = advance(states, inputs, engrams)
        close(found, torch.stack(exact))
        assert torch.equal(found_inputs, torch.stack([layer[-3:].mT for layer in conv]))


def test_an_engram_that_was_not_kept_changes_nothing():
    shape = stack_of("gated_delta")
    states, inputs = states_of(shape, 1), torch.randn(2, 3, 3)
    engram = engram_of(read(shape, 5, 0), 4)
    with_none, with_none_inputs = advance(states, inputs, [None, engram, None])
    without, without_inputs = advance(states, inputs, [engram])
    assert torch.equal(with_none, without)
    assert torch.equal(with_none_inputs, without_inputs)


@pytest.mark.parametrize("strength", [3.0, 100.0, 1e4])
@pytest.mark.parametrize("kind", KINDS)
def test_strong_decays(kind, strength):
    """Sums of log decays far below what exp can hold: nothing overflows, and what the last tokens wrote is there."""
    (layer,) = read(stack_of(kind, layers=1), 128, seed=1, strength=strength)
    if kind == "gated_delta":  # the last tokens hardly decay, so that their sum stands on a huge one
        layer.inputs[2][-3:] *= 1e-3 / strength
    exact_a, exact_b = layer.affine()
    (a,), (b,) = as_affine(stack([layer.factors()], [torch.empty(3, 0)]))
    assert torch.isfinite(a).all()
    assert (a - exact_a).abs().max() < 1e-6
    close(b, exact_b)


def test_half_precision_inputs_are_computed_in_fp32():
    (layer,) = read(stack_of("gated_delta", layers=1), 20, seed=1)
    halved = [tensor.bfloat16() for tensor in layer.inputs]
    for found, exact in zip(
        gated_delta.factors(*halved), gated_delta.factors(*(tensor.float() for tensor in halved)), strict=True
    ):
        assert torch.equal(found, exact)


def test_heads_that_cannot_share_are_refused():
    with pytest.raises(ValueError, match="4 heads cannot share 3 groups"):
        mamba2.factors(torch.zeros(2, 4, 1), torch.zeros(2, 3, 1), torch.zeros(2, 4), torch.zeros(4))


@pytest.mark.parametrize(("num_tokens", "kept"), [(1, 1), (2, 2), (3, 3), (4, 3), (9, 3)])
def test_conv_tail(num_tokens, kept):
    inputs = torch.arange(2.0 * num_tokens).view(num_tokens, 2)
    tail = conv_tail(inputs, 4)
    assert torch.equal(tail, inputs[num_tokens - kept :].mT)
    assert conv_tail(inputs, 1).shape == (2, 0)


def test_short_convolutions_alone_have_only_a_tail():
    engram = stack([], [torch.ones(5, 2), torch.zeros(5, 2)])
    assert engram.decay.shape == (2, 0)
    assert engram.num_bytes == engram.tail.numel() * 4
    states, inputs = advance(torch.empty(2, 0, 0, 0), torch.full((2, 5, 3), 7.0), [engram])
    assert states.shape == (2, 0, 0, 0)
    assert torch.equal(inputs[0], torch.tensor([7.0, 1, 1]).expand(5, 3))


def test_layers_need_their_tails():
    with pytest.raises(ValueError, match="1 layers and 2 convolution tails"):
        stack([read(stack_of("mamba2", layers=1), 2, 0)[0].factors()], [torch.empty(3, 0)] * 2)
    with pytest.raises(ValueError, match="0 layers and 0"):
        stack([], [])
