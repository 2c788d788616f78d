import pytest
import torch
from transformers import DynamicCache

from tests.hf import native
from tests.tiny import FAMILIES, geometry_of, tiny_checkpoint
from v14.engines.transformers.cache import MemoryCache
from v14.types import Span

CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=FAMILIES)
def plain(request):
    return native(tiny_checkpoint(request.param))


@pytest.fixture
def geometry(plain):
    return geometry_of(tiny_checkpoint(plain.config.model_type.removesuffix("_text")))


@pytest.fixture
def cache(geometry):
    return MemoryCache(geometry)


@torch.no_grad()
def read(model, ids, cache):
    return model(ids, past_key_values=cache, use_cache=True).logits


def tokens(n, seed=0):
    return torch.randint(300, 900, (1, n), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("chunks", [[150], [1, 1, 60, 3, 85], [63, 64, 1, 22], [64, 86]], ids=str)
def test_attention_sees_what_the_librarys_cache_shows(plain, cache, chunks):
    theirs = DynamicCache(config=plain.config)
    for piece in tokens(sum(chunks)).split(chunks, dim=1):
        assert torch.equal(read(plain, piece, cache), read(plain, piece, theirs))
    assert cache.get_seq_length() == theirs.get_seq_length() == 150


def test_every_layer_keeps_every_token(plain, cache, geometry):
    read(plain, tokens(150), cache)
    keys, values = cache.read(0, 150)
    assert keys.shape == (len(geometry.layers), 150, geometry.num_kv_heads, geometry.head_dim) == values.shape
    assert torch.equal(cache.read(20, 31)[0], keys[:, 20:31])
    for start, end in [(-1, 3), (3, 3), (100, 151)]:
        with pytest.raises(ValueError, match="not within the 150 cached"):
            cache.read(start, end)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 100, 149])
def test_truncated_goes_on_as_if_nothing_had_followed(plain, cache, length):
    read(plain, tokens(150), cache)
    cache.truncate(length)
    assert cache.get_seq_length() == length
    whole = torch.cat([tokens(150)[:, :length], tokens(9, seed=1)], dim=1)
    alone = read(plain, whole, DynamicCache(config=plain.config))[:, length:]
    torch.testing.assert_close(read(plain, tokens(9, seed=1), cache), alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("head", [0, 5])
def test_a_span_is_read_like_the_tokens_it_was_taken_from(plain, cache, geometry, head):
    whole = tokens(120)
    told = MemoryCache(geometry)
    expected = read(plain, whole, told)[:, 80:]
    keys, values = told.read(head, 80)
    if head:
        read(plain, whole[:, :head], cache)
    cache.append(Span(position=head, token_ids=(7,) * (80 - head), keys=keys, values=values), CPU, torch.float32)
    torch.testing.assert_close(read(plain, whole[:, 80:], cache), expected, atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="cannot stand at 120"):
        cache.append(Span(position=head, token_ids=(7,), keys=keys, values=values), CPU, torch.float32)
