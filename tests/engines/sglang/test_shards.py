"""Heads shared out among ranks: every head once, copies where there are fewer KV heads than ranks."""

from dataclasses import replace

import pytest
import torch

from tests.tiny import tiny_profile
from v14.engines.sglang.shards import Shards
from v14.recall.cue import build_cue, gather
from v14.recall.voters import Voters
from v14.types import Cue

SHAPES = [(4, 2, 1), (4, 2, 2), (14, 2, 2), (9, 3, 3), (12, 6, 2), (30, 10, 5), (4, 2, 4), (12, 3, 6), (8, 1, 4)]
"""Query heads, KV heads, ranks; the last three have copies of KV heads."""


@pytest.fixture(params=SHAPES, ids="{0[0]} heads, {0[1]} KV heads, {0[2]} ranks".format)
def shape(request):
    heads, kv_heads, size = request.param
    geometry = replace(tiny_profile("llama").geometry, num_heads=heads, num_kv_heads=kv_heads)
    return geometry, Shards.of(geometry, size)


@pytest.fixture
def voters(shape):
    """One voter in every head of a layer, and two in another, not in the order of the heads."""
    geometry, _ = shape
    heads = [(geometry.layers[0].index, head) for head in reversed(range(geometry.num_heads))]
    heads += [(geometry.layers[1].index, geometry.num_heads - 1), (geometry.layers[1].index, 0)]
    generator = torch.Generator().manual_seed(3)
    null = Cue(
        queries=torch.randn(len(heads), 2, geometry.head_dim, generator=generator),
        context_lse=torch.randn(len(heads), 2, generator=generator),
    )
    count = len(heads)
    weights, sinks = torch.randn(2, count, generator=generator).tolist()
    return Voters(heads=tuple(heads), weights=tuple(weights), calibration="subtract", null=null, sinks=tuple(sinks))


def test_every_kv_head_is_somewhere_and_what_is_cut_is_joined_again(shape):
    geometry, shards = shape
    assert not shards.uneven
    whole = torch.randn(2, 5, geometry.num_kv_heads, 3, generator=torch.Generator().manual_seed(1))
    parts = shards.cut(whole)
    assert {part.shape for part in parts} == {(2, 5, max(1, geometry.num_kv_heads // shards.size), 3)}
    assert torch.equal(shards.joined(parts), whole)


def test_a_rank_has_the_kv_heads_that_its_queries_look_at(shape):
    geometry, shards = shape
    mine = shards.geometry(geometry)
    seen = []
    for rank in range(shards.size):
        kv_heads = range(geometry.num_kv_heads)[shards.kv_heads(rank)]
        for head in range(mine.num_heads):
            seen.append(rank * mine.num_heads + head)
            assert kv_heads[head // mine.group] == seen[-1] // geometry.group
    assert seen == list(range(geometry.num_heads))


def test_the_ranks_cues_are_the_whole_cue(shape, voters):
    """Each rank computes the cue of its own voters from its own heads."""
    geometry, shards = shape
    generator = torch.Generator().manual_seed(2)
    num_tokens, first = 7, 4
    queries = {
        layer.index: torch.randn(num_tokens - first, geometry.num_heads, geometry.head_dim, generator=generator)
        for layer in geometry.layers
    }
    keys = {
        layer.index: torch.randn(num_tokens, geometry.num_kv_heads, geometry.head_dim, generator=generator)
        for layer in geometry.layers
    }

    def cue(queries, keys, geometry, voters):
        if not voters.heads:
            return Cue(queries=torch.empty(0, 3, geometry.head_dim), context_lse=torch.empty(0, 3))
        picked = gather(queries, keys, geometry, voters)
        return build_cue(*picked, geometry, voters, first_query=first, start=2)

    mine = shards.geometry(geometry)
    parts = []
    for rank in range(shards.size):
        heads = slice(rank * mine.num_heads, (rank + 1) * mine.num_heads)
        of_rank = {layer: tensor[:, heads] for layer, tensor in queries.items()}
        kv_of_rank = {layer: tensor[:, shards.kv_heads(rank)] for layer, tensor in keys.items()}
        parts.append(cue(of_rank, kv_of_rank, mine, shards.voters(voters, rank)[0]))
    joined, whole = shards.joined_cue(voters, parts), cue(queries, keys, geometry, voters)
    torch.testing.assert_close(joined.queries, whole.queries, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(joined.context_lse, whole.context_lse, rtol=1e-5, atol=1e-5)
    places = [place for rank in range(shards.size) for place in shards.voters(voters, rank)[1]]
    assert sorted(places) == list(range(len(voters.heads)))


def test_a_rank_may_have_no_voters():
    profile = tiny_profile("llama")
    only = replace(
        profile.voters,
        heads=((0, 0),),
        weights=(1.0,),
        null=Cue(queries=profile.voters.null.queries[:1], context_lse=profile.voters.null.context_lse[:1]),
    )
    voters, places = Shards.of(profile.geometry, 2).voters(only, 1)
    assert voters.heads == ()
    assert places == []


@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(9, 3, 2), (14, 2, 4), (12, 6, 4), (12, 4, 3)])
def test_what_cannot_be_shared_out_is_uneven(heads, kv_heads, size):
    assert Shards(num_heads=heads, num_kv_heads=kv_heads, size=size).uneven
