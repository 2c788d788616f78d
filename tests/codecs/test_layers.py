"""Layers side by side in different codecs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from v14.codecs.layers import decode_layers, encode_layers, row_bytes, smaller
from v14.errors import TraceCorruptError

CODECS = st.lists(st.sampled_from(("native", "int8", "int4")), min_size=1, max_size=5)
DTYPES = st.sampled_from((torch.float32, torch.bfloat16, torch.float16))


@given(codecs=CODECS, half=st.sampled_from(("keys", "values")), dtype=DTYPES, seed=st.integers(0, 999))
def test_each_layer_is_in_its_own_codec(codecs, half, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    shape = (1 + seed % 40, 2, 8)
    x = torch.randn(len(codecs), *shape, generator=generator).to(dtype)
    rows = encode_layers(x, codecs, half)
    assert [len(row) for row in rows] == [row_bytes(codec, half, shape, dtype) for codec in codecs]
    back = decode_layers(rows, codecs, half, shape, dtype)
    steps = {"native": 0.0, "int8": 10 / 255, "int4": 10 / 15}
    for codec, was, now in zip(codecs, x, back, strict=True):
        assert (was.float() - now.float()).abs().max() <= steps[codec] / 2 + (codec != "native") * 0.02
        alone = decode_layers(encode_layers(was[None], [codec], half), [codec], half, shape, dtype)
        assert torch.equal(alone[0], now)


def test_native_layers_keep_every_bit():
    x = torch.frombuffer(bytearray(range(240)), dtype=torch.bfloat16).view(2, 3, 4, 5)
    back = decode_layers(encode_layers(x, ["native"] * 2, "keys"), ["native"] * 2, "keys", (3, 4, 5), x.dtype)
    assert bytes(back.view(torch.uint8).numpy()) == bytes(range(240))


def test_rows_of_another_length_are_refused():
    with pytest.raises(TraceCorruptError, match="rows of"):
        decode_layers([torch.zeros(3, dtype=torch.uint8)], ["int8"], "keys", (2, 1, 4), torch.float32)


@pytest.mark.parametrize(("num_tokens", "codec", "wins"), [(1, "int8", False), (4, "int8", True), (2, "int4", True)])
def test_short_events_stay_as_they_are(num_tokens, codec, wins):
    """A channel's two numbers cost four bytes, however few tokens share them."""
    x = torch.ones(2, num_tokens, 2, 64, dtype=torch.bfloat16)
    assert smaller(x, x, codec) == wins


def test_what_cannot_be_quantised_stays_as_it_is():
    x = torch.ones(1, 64, 1, 64)
    broken = x.clone()
    broken[0, 0, 0, 0] = float("nan")
    assert smaller(x, x, "int8")
    assert not smaller(x, broken, "int8")
    assert not smaller(broken, x, "int8")
