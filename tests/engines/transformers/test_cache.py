from functools import partial

import pytest
import torch
from transformers import DynamicCache

from tests.hf import native
from tests.tiny import HYBRIDS, geometry_of, tiny_checkpoint
from v14.engines.transformers.cache import MemoryCache
from v14.types import Span

CPU = torch.device("cpu")
ROUNDING = 5e-5
KINDS = ("llama", "gemma3", "mistral", "gpt_oss", "qwen3_5", "nemotron_h", "lfm2")
"""Families whose caches differ."""


@pytest.fixture(scope="module", params=KINDS)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def plain(family):
    return native(tiny_checkpoint(family))


@pytest.fixture(scope="module")
def geometry(family):
    return geometry_of(tiny_checkpoint(family))


@pytest.fixture
def new_cache(geometry, plain):
    return partial(MemoryCache, geometry, plain.config)


@torch.no_grad()
def read(model, ids, cache):
    return model(ids, past_key_values=cache, use_cache=True).logits


def tokens(n, seed=0):
    return torch.randint(300, 900, (1, n), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("chunks", [[150], [1, 1, 60, 3, 85], [63, 64, 1, 22], [64, 86]], ids=str)
def test_the_model_sees_what_the_librarys_cache_shows(plain, new_cache, chunks):
    cache, theirs = new_cache(), DynamicCache(config=plain.config)
    for piece in tokens(sum(chunks)).split(chunks, dim=1):
        assert torch.equal(read(plain, piece, cache), read(plain, piece, theirs))
    assert cache.get_seq_length() == theirs.get_seq_length() == 150


def test_every_attention_layer_keeps_every_token(plain, new_cache, geometry):
    cache = new_cache()
    read(plain, tokens(150), cache)
    keys, values = cache.read(0, 150)
    assert keys.shape == (len(geometry.layers), 150, geometry.num_kv_heads, geometry.head_dim) == values.shape
    assert torch.equal(cache.read(20, 31)[0], keys[:, 20:31])
    for start, end in [(-1, 3), (3, 3), (100, 151)]:
        with pytest.raises(ValueError, match="not within the 150 cached"):
            cache.read(start, end)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 100, 149])
def test_truncated_goes_on_as_if_nothing_had_followed(plain, new_cache, length):
    cache, straight = new_cache(), new_cache()
    if length:
        read(plain, tokens(length), cache)
        read(plain, tokens(length), straight)
    cache.checkpoint()
    read(plain, tokens(150, seed=2), cache)
    read(plain, tokens(1, seed=3), cache)
    cache.truncate(length)
    assert cache.get_seq_length() == length
    for seed, n in [(4, 9), (5, 1)]:
        assert torch.equal(read(plain, tokens(n, seed), cache), read(plain, tokens(n, seed), straight))


def test_recurrent_states_go_back_only_to_checkpoints(family, plain, new_cache):
    cache = new_cache()
    read(plain, tokens(20), cache)
    cache.checkpoint()
    read(plain, tokens(20), cache)
    if family not in HYBRIDS:
        cache.truncate(30)
        assert cache.get_seq_length() == 30
        return
    with pytest.raises(ValueError, match=r"no checkpoint at 30, only at \[20\]"):
        cache.truncate(30)
    assert cache.get_seq_length() == 40
    cache.truncate(20)
    assert cache.get_seq_length() == 20


@pytest.mark.parametrize("family", ["qwen3_5", "lfm2"], indirect=True)
def test_a_checkpoint_behind_placed_tokens_alone_knows_that_nothing_was_read(plain, new_cache, geometry):
    told, cache, straight = new_cache(), new_cache(), new_cache()
    read(plain, tokens(30), told)
    keys, values = told.read(0, 30)
    span = Span(position=0, token_ids=(7,) * 30, keys=keys, values=values)
    for each in (cache, straight):
        each.append(span, CPU, torch.float32)
    cache.checkpoint()
    read(plain, tokens(9, seed=1), cache)
    cache.truncate(30)
    assert torch.equal(read(plain, tokens(9, seed=2), cache), read(plain, tokens(9, seed=2), straight))


@pytest.mark.parametrize("head", [0, 5])
@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt_oss"], indirect=True)
def test_a_span_is_read_like_the_tokens_it_was_taken_from(plain, new_cache, geometry, head):
    whole = tokens(120)
    told, cache = new_cache(), new_cache()
    expected = read(plain, whole, told)[:, 80:]
    keys, values = told.read(head, 80)
    if head:
        read(plain, whole[:, :head], cache)
    cache.append(Span(position=head, token_ids=(7,) * (80 - head), keys=keys, values=values), CPU, torch.float32)
    torch.testing.assert_close(read(plain, whole[:, 80:], cache), expected, atol=ROUNDING, rtol=0)
    with pytest.raises(ValueError, match="cannot stand at 120"):
        cache.append(Span(position=head, token_ids=(7,), keys=keys, values=values), CPU, torch.float32)


def test_what_a_trace_does_not_hold_is_not_placed():
    checkpoint = tiny_checkpoint("qwen4_exp")
    geometry, model = geometry_of(checkpoint), native(checkpoint)
    cache = MemoryCache(geometry, model.config)
    nothing = torch.zeros(len(geometry.layers), 3, geometry.num_kv_heads, geometry.head_dim)
    with pytest.raises(ValueError, match="read again"):
        cache.append(Span(position=0, token_ids=(7,) * 3, keys=nothing, values=nothing), CPU, torch.float32)
    assert cache.get_seq_length() == 0
