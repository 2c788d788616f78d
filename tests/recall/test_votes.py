"""Votes: the batched path against the naive twin, the index against both, on odd sizes."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from v14.geometry import AttentionLayer, Geometry, Rotary
from v14.recall import naive
from v14.recall.cue import build_cue
from v14.recall.index import Index
from v14.recall.voters import Voters
from v14.recall.votes import SHARE_FLOOR, calibrate, voter_keys
from v14.reinstate.rotation import rotate
from v14.types import Cue, Event

HEADS = ((1, 0), (1, 3), (4, 2), (6, 1), (6, 3))


def make_geometry(dim: int) -> Geometry:
    """Layers 1, 4 (sliding) and 6 hold KV; four heads on two KV heads; layer 4 turns only part of the head."""
    full = Rotary(inv_freq=tuple(500.0 ** (-i / (dim // 2)) for i in range(dim // 2)))
    part = Rotary(inv_freq=full.inv_freq[: dim // 4])
    layers = (
        AttentionLayer(index=1, rotary=full, scaling=dim**-0.5),
        AttentionLayer(index=4, rotary=part, scaling=0.3, window=5),
        AttentionLayer(index=6, rotary=None, scaling=dim**-0.5),
    )
    return Geometry(num_heads=4, num_kv_heads=2, head_dim=dim, layers=layers)


def make_cue(num_voters: int, num_tokens: int, dim: int, generator: torch.Generator) -> Cue:
    queries = 2 * torch.randn(num_voters, num_tokens, dim, generator=generator)
    return Cue(queries=queries, context_lse=3 + torch.randn(num_voters, num_tokens, generator=generator))


def make_voters(calibration: str, dim: int, generator: torch.Generator) -> Voters:
    null = make_cue(len(HEADS), 3, dim, generator)
    return Voters(heads=HEADS, weights=(1.0, 0.5, 2.0, 0.25, 1.5), calibration=calibration, null=null)


def values(index: Index, cue: Cue) -> dict[str, float]:
    """The votes of all events."""
    return {vote.event_id: vote.value for vote in index.votes(cue).best(len(index))}


def make_event(num_tokens: int, salt: int) -> Event:
    return Event(namespace="n", chat_id="c", role="user", said_at=float(salt), token_ids=(salt, *range(1, num_tokens)))


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 37), min_size=1, max_size=9),
    num_cue=st.integers(1, 7),
    half_dim=st.sampled_from([4, 8, 10]),
    calibration=st.sampled_from(["subtract", "log-ratio"]),
    seed=st.integers(0, 2**31),
)
def test_index_votes_as_the_naive_twin(lengths, num_cue, half_dim, calibration, seed):
    generator = torch.Generator().manual_seed(seed)
    dim = 2 * half_dim
    geometry, voters = make_geometry(dim), make_voters(calibration, dim, generator)
    cue = make_cue(len(HEADS), num_cue, dim, generator)
    index = Index(geometry, voters)
    expected = {}
    for salt, length in enumerate(lengths):
        event = make_event(length, salt)
        keys = voter_keys(torch.randn(3, length, 2, dim, generator=generator), geometry, voters)
        index.add(event.id, keys)
        expected[event.id] = naive.vote(cue, keys, geometry, voters, SHARE_FLOOR)
    found = index.votes(cue).best(len(index))
    assert {vote.event_id for vote in found} == set(expected)
    assert [vote.value for vote in found] == sorted((vote.value for vote in found), reverse=True)
    for vote in found:
        assert vote.value == pytest.approx(expected[vote.event_id], abs=1e-4)


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(12)), kept=st.sets(st.integers(0, 11)), seed=st.integers(0, 2**31))
def test_an_index_does_not_remember_what_was_removed(order, kept, seed):
    """Whatever came and went, votes are those of an index of the rest; spare rows are poisoned by torch's fill."""
    generator = torch.Generator().manual_seed(seed)
    geometry, voters = make_geometry(8), make_voters("subtract", 8, generator)
    cue = make_cue(len(HEADS), 4, 8, generator)
    events = [make_event(1 + 5 * n % 40, n) for n in range(12)]
    keys = [voter_keys(torch.randn(3, e.num_tokens, 2, 8, generator=generator), geometry, voters) for e in events]
    worn, fresh = Index(geometry, voters), Index(geometry, voters)
    for number in order:
        worn.add(events[number].id, keys[number])
    for number in order:
        if number not in kept:
            worn.remove(events[number].id)
    for number in sorted(kept):
        fresh.add(events[number].id, keys[number])
    assert len(worn) == len(kept)
    assert {e.id for e in events if e.id in worn} == {events[n].id for n in kept}
    left, right = (values(index, cue) for index in (worn, fresh))
    assert left == pytest.approx(right, abs=1e-6)
    if kept:
        with pytest.raises(KeyError):
            worn.remove("sha256:none")


def test_order_is_that_of_adding():
    generator = torch.Generator().manual_seed(3)
    geometry, voters = make_geometry(8), make_voters("subtract", 8, generator)
    index = Index(geometry, voters)
    for name, length in (("b", 40), ("a", 3), ("c", 40)):
        index.add(name, torch.randn(5, length, 8, generator=generator))
    index.remove("b")
    index.add("d", torch.randn(5, 3, 8, generator=generator))
    assert sorted(("d", "c", "a"), key=index.order) == ["a", "c", "d"]


def test_index_checks_shapes():
    generator = torch.Generator().manual_seed(3)
    geometry, voters = make_geometry(8), make_voters("subtract", 8, generator)
    index = Index(geometry, voters)
    with pytest.raises(ValueError, match="voter keys"):
        index.add("sha256:a", torch.zeros(4, 4, 8))
    with pytest.raises(ValueError, match="voter layers"):
        voter_keys(torch.zeros(2, 4, 2, 8), geometry, voters)
    with pytest.raises(ValueError, match="unknown calibration"):
        calibrate(torch.zeros(1), torch.zeros(1), "none")


@settings(max_examples=25, deadline=None)
@given(head=st.integers(0, 4), event=st.integers(1, 9), part=st.integers(1, 8), seed=st.integers(0, 2**31))
def test_a_vote_is_the_attention_of_one_sequence(head, event, part, seed):
    """The share is what softmax over head, event and new part in one sequence would give, where no window cuts.

    `head` tokens stand in front. The probe saw the prompt without the event, the sequence has it in between.
    """
    generator = torch.Generator().manual_seed(seed)
    dim = 8
    geometry, voters = make_geometry(dim), make_voters("subtract", dim, generator)
    voters = Voters(heads=((1, 0), (1, 3), (6, 2)), weights=(1.0,) * 3, calibration="subtract", null=voters.null)
    raw_keys = torch.randn(2, head + event + part, 2, dim, generator=generator)
    raw_queries = torch.randn(3, part, dim, generator=generator)
    rotary = geometry.layers[0].rotary

    def at(x, position, layer):
        return rotate(x, rotary, position) if layer == 1 else x

    stored = torch.stack(
        [torch.stack([at(raw_keys[s, head + j], j, layer) for j in range(event)]) for s, layer in enumerate((1, 6))]
    )
    prompt = [*range(head), *range(head + event, head + event + part)]
    own, queries, expected = [], [], []
    for layer, kv_head in voters.key_heads(geometry):
        keys = raw_keys[(1, 6).index(layer), :, kv_head]
        own.append(torch.stack([at(keys[raw], p, layer) for p, raw in enumerate(prompt)]))
    for voter, (layer, query_head) in enumerate(voters.heads):
        queries.append(torch.stack([at(raw_queries[voter, t], head + t, layer) for t in range(part)]))
        masses = []
        for t in range(part):
            query = at(raw_queries[voter, t], head + event + t, layer)
            keys = raw_keys[(1, 6).index(layer), :, query_head // 2]
            # The probe saw the tokens in front at their distance without the event between.
            positions = [p + event if p < head else p for p in range(head + event + t + 1)]
            visible = [at(keys[p], position, layer) for p, position in enumerate(positions)]
            weights = torch.softmax(torch.stack(visible) @ query * dim**-0.5, 0)
            masses.append(weights[head : head + event].sum())
        expected.append(torch.stack(masses).mean())
    cue = build_cue(torch.stack(queries), torch.stack(own), geometry, voters, first_query=head, start=head)
    keys = voter_keys(stored, geometry, voters)
    found = torch.tensor(naive.share(cue, keys, geometry, voters))
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=1e-4)


def test_cue_sees_only_its_window_and_the_past():
    generator = torch.Generator().manual_seed(5)
    geometry = make_geometry(8)
    null = make_cue(1, 1, 8, generator)
    voters = Voters(heads=((4, 1),), weights=(1.0,), calibration="subtract", null=null)
    queries, keys = torch.randn(1, 3, 8, generator=generator), torch.randn(1, 12, 8, generator=generator)
    whole = build_cue(queries, keys, geometry, voters, first_query=9, start=9)
    scores = queries[0] @ keys[0].T * 0.3
    for t in range(3):
        seen = scores[t, 9 + t - 4 : 9 + t + 1]  # window 5, itself included
        torch.testing.assert_close(whole.context_lse[0, t], seen.logsumexp(0))
    tail = build_cue(queries, keys[:, 5:], geometry, voters, first_query=9, first_key=5, start=9)
    torch.testing.assert_close(tail.context_lse, whole.context_lse)
    with pytest.raises(ValueError, match="do not cover"):
        build_cue(queries, keys[:, :11], geometry, voters, first_query=9, start=9)
    with pytest.raises(ValueError, match="do not fit"):
        build_cue(queries[:0], keys, geometry, voters, first_query=9, start=9)


@settings(max_examples=30, deadline=None)
@given(
    head=st.integers(0, 9),
    part=st.integers(1, 7),
    late=st.integers(0, 6),
    sinks=st.booleans(),
    chunk=st.sampled_from([1, 200, 1 << 25]),
    seed=st.integers(0, 2**31),
)
def test_a_cue_is_that_of_each_voter_alone(head, part, late, sinks, chunk, seed):
    """Layers of three kinds at once, whatever fits into a step; a cue may hold the last tokens only."""
    generator = torch.Generator().manual_seed(seed)
    dim, late = 8, min(late, part - 1)
    geometry, voters = make_geometry(dim), make_voters("subtract", dim, generator)
    voters = replace(voters, sinks=tuple(torch.randn(len(HEADS), generator=generator).tolist()) if sinks else ())
    queries = torch.randn(len(HEADS), part - late, dim, generator=generator)
    keys = torch.randn(5, head + part, dim, generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("v14.recall.cue.CHUNK", chunk)
        cue = build_cue(queries, keys, geometry, voters, first_query=head + late, start=head)
    for voter, (layer_index, _) in enumerate(HEADS):
        layer = geometry.layers[geometry.slot(layer_index)]
        row = int(voters.key_rows(geometry)[voter])
        for t, query in enumerate(queries[voter]):
            last = head + late + t
            first = 0 if layer.window is None else max(0, last + 1 - layer.window)
            scores = [float(query.double() @ key.double()) * layer.scaling for key in keys[row, first : last + 1]]
            offered = scores + ([voters.sinks[voter]] if sinks else [])
            assert float(cue.context_lse[voter, t]) == pytest.approx(math.log(sum(map(math.exp, offered))), abs=1e-5)
            torch.testing.assert_close(cue.queries[voter, t], rotate(query, layer.rotary, -head))
