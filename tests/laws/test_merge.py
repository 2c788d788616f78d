"""The log-sum-exp merge of parts is attention over their concatenation, in whatever order and grouping."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny import geometry_of, tiny_checkpoint
from v14.engines.transformers.attention import attention_forward
from v14.reinstate.naive import attend, merge

LENGTHS = st.lists(st.integers(1, 40), min_size=2, max_size=6)


def parts_and_whole(seed, lengths, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randn(2, 5, 16, generator=generator)
    keys, values = (torch.randn(2, sum(lengths), 16, generator=generator) * scale for _ in range(2))
    pieces = zip(keys.split(lengths, dim=-2), values.split(lengths, dim=-2), strict=True)
    return [attend(queries, k, v, 0.25) for k, v in pieces], attend(queries, keys, values, 0.25)


def assert_same(one, other):
    torch.testing.assert_close(one.out, other.out, atol=1e-5, rtol=0)
    torch.testing.assert_close(one.lse, other.lse, atol=1e-5, rtol=1e-6)


@given(seed=st.integers(0, 999), lengths=LENGTHS, scale=st.sampled_from([0.1, 1.0, 3.0]))
def test_merge_is_attention_over_all(seed, lengths, scale):
    parts, whole = parts_and_whole(seed, lengths, scale)
    assert_same(merge(parts), whole)


@given(seed=st.integers(0, 999), lengths=LENGTHS, data=st.data())
def test_order_and_grouping_do_not_matter(seed, lengths, data):
    parts, whole = parts_and_whole(seed, lengths)
    shuffled = data.draw(st.permutations(parts))
    cut = data.draw(st.integers(1, len(parts) - 1))
    assert_same(merge(shuffled), whole)
    assert_same(merge([merge(shuffled[:cut]), merge(shuffled[cut:])]), whole)


def test_the_engines_attention_is_the_merge():
    """Keys of a span standing in front of the prompt's: the engine attends once, the merge twice."""
    geometry = geometry_of(tiny_checkpoint("qwen3"))
    generator = torch.Generator().manual_seed(0)
    shape = (1, geometry.num_heads, 1, geometry.head_dim)
    query = torch.randn(shape, generator=generator)
    keys, values = (torch.randn(1, geometry.num_kv_heads, 90, geometry.head_dim, generator=generator) for _ in range(2))
    scaling = geometry.layers[0].scaling

    class Layer:
        layer_idx, num_key_value_groups, is_causal = 0, geometry.group, True

    out, _ = attention_forward(Layer(), query, keys, values, None, scaling=scaling)
    wide_keys, wide_values = (t.repeat_interleave(geometry.group, dim=1) for t in (keys, values))
    span, prompt = (
        attend(query, wide_keys[:, :, s], wide_values[:, :, s], scaling) for s in (slice(70), slice(70, None))
    )
    torch.testing.assert_close(merge([span, prompt]).out.transpose(1, 2), out, atol=1e-5, rtol=0)
