"""Sketches of keys: what they say of scores, and what they do not."""

import pytest
import torch

from v14.recall.sketch import LEAST_DIRECTIONS, Sketch, fit
from v14.types import Cue

DIM, TOKENS, QUERIES = 64, 2000, 12
ROWS = [0, 1, 1]


def world(seed=0):
    """Keys around a mean with most of their spread in few directions, queries that look along others as well."""
    random = torch.Generator().manual_seed(seed)

    def spread(fall):
        turned = torch.linalg.qr(torch.randn(DIM, DIM, generator=random)).Q
        return torch.diag(torch.arange(1, DIM + 1).float() ** -fall) @ turned

    keys = torch.stack([4 + torch.randn(TOKENS, DIM, generator=random) @ spread(0.3) for _ in range(2)])
    looks = [spread(1.0) for _ in ROWS]
    cues = [
        Cue(
            queries=torch.stack([3 * torch.randn(QUERIES, DIM, generator=random) @ look for look in looks]),
            context_lse=torch.zeros(len(ROWS), QUERIES),
        )
        for _ in range(40)
    ]
    return keys, cues


def errors(sketch, keys, cues):
    """Root mean square of what a score is off by, of all scores' spread."""
    made = sketch.of(keys).float()
    off, spread = [], []
    for cue in cues:
        for voter, row in enumerate(ROWS):
            exact = cue.queries[voter] @ keys[row].T
            found = cue.queries[voter] @ sketch.queries[row] @ made[row].T
            found += (cue.queries[voter] @ sketch.centre[row])[:, None]
            off.append((found - exact).square().mean())
            spread.append((exact - exact.mean(1, keepdim=True)).square().mean())
    return float((torch.stack(off).mean() / torch.stack(spread).mean()).sqrt())


def test_half_the_directions_in_8_bits_say_nearly_everything():
    keys, cues = world()
    sketch = fit(keys[:, :1000], cues[:20], ROWS)
    assert sketch.keys.shape == sketch.queries.shape == (2, DIM, LEAST_DIRECTIONS)
    fitted = errors(sketch, keys[:, 1000:], cues[20:])
    assert fitted < 0.15
    # Of the same size, by the keys alone.
    blind = fit(keys[:, :1000], [Cue(queries=torch.eye(DIM).expand(3, -1, -1), context_lse=torch.zeros(3, DIM))], ROWS)
    assert errors(blind, keys[:, 1000:], cues[20:]) > 2 * fitted


def test_with_all_directions_only_rounding_is_lost():
    keys, cues = world()
    keys, cues = keys[..., :20], [Cue(queries=c.queries[..., :20], context_lse=c.context_lse) for c in cues]
    sketch = fit(keys, cues, ROWS)
    assert sketch.keys.shape == (2, 20, 20)
    assert errors(sketch, keys, cues) < 0.03


def test_what_lies_far_out_is_held_at_the_edge():
    keys, cues = world()
    sketch = fit(keys, cues, ROWS)
    far = sketch.of(1000 * keys[:, :5])
    assert far.dtype == torch.int8
    assert far.abs().max() == 127


def test_questions_in_few_directions_and_equal_keys_can_be_fitted():
    cue = Cue(queries=torch.ones(3, 1, DIM), context_lse=torch.zeros(3, 1))
    sketch = fit(torch.ones(2, 3, DIM), [cue], ROWS)
    for part in (sketch.keys, sketch.queries, sketch.centre):
        assert part.isfinite().all()
    assert not sketch.of(torch.ones(2, 3, DIM)).any()


def test_parts_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match="must be"):
        Sketch(keys=torch.zeros(2, 8, 4), queries=torch.zeros(2, 8, 4), centre=torch.zeros(3, 8))
