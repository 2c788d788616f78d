"""What each token gives to a vote: an exact share where votes are linear, the slope where they are not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recall.test_votes import HEADS, make_cue, make_event, make_geometry, make_voters, values
from v14.recall.index import Index
from v14.recall.votes import SHARE_FLOOR, voter_keys
from v14.types import Cue


def world(calibration, seed, num_cue, lengths, dim=8):
    generator = torch.Generator().manual_seed(seed)
    geometry, voters = make_geometry(dim), make_voters(calibration, dim, generator)
    index = Index(geometry, voters)
    events = [make_event(length, salt) for salt, length in enumerate(lengths)]
    for event in events:
        keys = torch.randn(3, event.num_tokens, 2, dim, generator=generator)
        index.add(event.id, voter_keys(keys, geometry, voters))
    return index, voters, make_cue(len(HEADS), num_cue, dim, generator), [event.id for event in events]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31), num_cue=st.integers(1, 7), lengths=st.lists(st.integers(1, 37), min_size=1, max_size=5)
)
def test_subtracted_votes_are_the_sum_of_their_tokens(seed, num_cue, lengths):
    index, voters, cue, ids = world("subtract", seed, num_cue, lengths)
    votes = values(index, cue)
    taken = dict(zip(index.shares(cue)[0], index.null_shares() @ torch.tensor(voters.weights), strict=True))
    for event_id in ids:
        weights = index.token_weights(cue, [event_id])[0]
        assert weights.shape == (num_cue,)
        assert float(weights.sum()) == pytest.approx(votes[event_id] + float(taken[event_id]), abs=1e-5)


def test_log_ratio_votes_follow_their_tokens_slope():
    """A small change of the context's offer at one token moves the vote by that token's weight."""
    index, voters, cue, (event_id,) = world("log-ratio", 3, 4, [9])
    weights = index.token_weights(cue, [event_id])[0].double()
    share = index.shares(cue)[1][0].double()
    slope = torch.tensor(voters.weights) / (share + SHARE_FLOOR)
    assert float(weights.sum()) == pytest.approx(float(slope @ share), rel=1e-5)
    for token in range(4):
        silent = cue.context_lse.clone()
        silent[:, token] = 1e9
        without = index.shares(Cue(queries=cue.queries, context_lse=silent))[1][0].double()
        assert float(slope @ (share - without)) == pytest.approx(float(weights[token]), abs=1e-5)


def test_several_events_at_once_have_the_weights_of_each():
    index, _, cue, ids = world("log-ratio", 5, 6, [9, 1, 30])
    together = index.token_weights(cue, ids[::-1])
    assert torch.allclose(together, torch.cat([index.token_weights(cue, [event_id]) for event_id in ids[::-1]]))


def test_an_unknown_event_has_no_weights():
    index, _, cue, _ = world("subtract", 1, 2, [3])
    with pytest.raises(KeyError):
        index.token_weights(cue, ["sha256:none"])
