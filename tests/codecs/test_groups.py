"""Quantised layers: the vectorised code is the naive one byte for byte, and nothing moves by more than half a step."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from v14.codecs import naive
from v14.codecs.groups import Grouping, decode, encode, quantizable
from v14.errors import TraceCorruptError

GROUPINGS = st.builds(Grouping, bits=st.sampled_from((4, 8)), axis=st.sampled_from((0, 2)), size=st.integers(1, 40))
SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 41), st.integers(1, 3), st.integers(1, 9))
DTYPES = st.sampled_from((torch.float32, torch.bfloat16, torch.float16))


@st.composite
def layers(draw, dtype=DTYPES):
    """Normal numbers whose channels differ in size and place as those of real keys do, and now and then constants."""
    shape = draw(SHAPES)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(shape, generator=generator)
    x *= 10 ** (torch.rand(shape[-1], generator=generator) * draw(st.floats(0, 6)) - 3)
    x += torch.randn(shape[-1], generator=generator) * draw(st.sampled_from((0.0, 1.0, 300.0)))
    if draw(st.booleans()):
        x[:, :, 0] = draw(st.sampled_from((0.0, -0.0, 1e-30, -60000.0, 60000.0, 0.1)))
    return x.clamp(-60000, 60000).to(draw(dtype))


@given(x=layers(), grouping=GROUPINGS)
@settings(max_examples=60)
def test_rows_are_the_naive_ones(x, grouping):
    rows = encode(x, grouping)
    assert rows.shape == (len(x), grouping.row_bytes(tuple(x.shape[1:])))
    assert [bytes(row.numpy()) for row in rows] == [naive.encode_layer(layer, grouping) for layer in x]
    back = decode(rows, tuple(x.shape[1:]), grouping, torch.float32)
    plain = [naive.decode_layer(bytes(row.numpy()), tuple(x.shape[1:]), grouping) for row in rows]
    torch.testing.assert_close(back, torch.stack(plain), rtol=1e-6, atol=1e-7)


@given(x=layers(), grouping=GROUPINGS)
def test_every_value_comes_back_within_half_a_step(x, grouping):
    back = decode(encode(x, grouping), tuple(x.shape[1:]), grouping, torch.float32)
    along = x.float().movedim(grouping.axis + 1, -1)
    error = (back - x.float()).abs().movedim(grouping.axis + 1, -1)
    _, group = grouping.groups(along.shape[-1])
    for values, errors in zip(along.split(group, -1), error.split(group, -1), strict=True):
        spread = values.amax(-1) - values.amin(-1)
        # What rounding `low` down and `step` up to fp16 may add: 2^-10 of each, 2^-24 near zero.
        widened = spread + 2**-10 * values.amin(-1).abs() + 2**-23
        step = widened / (2**grouping.bits - 1) * (1 + 2**-9) + 2**-23
        assert (errors <= step[..., None] / 2 + 1e-6 * values.abs()).all()


@given(x=layers(), grouping=GROUPINGS)
def test_what_was_decoded_is_within_its_dtype(x, grouping):
    back = decode(encode(x, grouping), tuple(x.shape[1:]), grouping, x.dtype)
    exact = decode(encode(x, grouping), tuple(x.shape[1:]), grouping, torch.float32)
    assert back.dtype == x.dtype
    assert back.is_contiguous()
    assert torch.equal(back, exact.to(x.dtype))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 65600.0])
def test_what_has_no_step_is_not_quantizable(value):
    x = torch.zeros(1, 2, 1, 4)
    assert quantizable(x)
    x[0, 1, 0, 2] = value
    assert not quantizable(x)


def test_rows_of_another_length_are_refused():
    grouping = Grouping(bits=4, axis=0, size=32)
    rows = encode(torch.zeros(2, 5, 1, 3), grouping)
    with pytest.raises(TraceCorruptError, match="are no layers"):
        decode(rows[:, 1:], (5, 1, 3), grouping, torch.float32)
