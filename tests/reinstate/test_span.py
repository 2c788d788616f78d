import pytest
import torch

from tests.tiny import geometry_of, tiny_checkpoint
from v14.reinstate.rotation import move_keys
from v14.reinstate.span import build_span
from v14.types import Event, Trace

GEOMETRY = geometry_of(tiny_checkpoint("gemma3"))


def event_and_trace(num_tokens, dtype=torch.float32):
    generator = torch.Generator().manual_seed(num_tokens)
    ids = tuple(range(num_tokens))
    event = Event(namespace="n", chat_id="c", role="user", said_at=0.0, token_ids=ids)
    shape = (len(GEOMETRY.layers), num_tokens, GEOMETRY.num_kv_heads, GEOMETRY.head_dim)
    keys, values = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    return event, Trace(keys=keys, values=values)


def test_events_stand_one_behind_the_other():
    events, traces = zip(*(event_and_trace(n) for n in (5, 1, 128)), strict=True)
    span = build_span(events, traces, GEOMETRY, 40)
    assert span.position == 40
    assert span.token_ids == (*range(5), 0, *range(128))
    expected = [move_keys(trace.keys, GEOMETRY, at) for trace, at in zip(traces, (40, 45, 46), strict=True)]
    assert torch.equal(span.keys, torch.cat(expected, dim=1))
    assert torch.equal(span.values, torch.cat([trace.values for trace in traces], dim=1))


def test_low_precision_keys_are_turned_in_fp32_and_rounded_once():
    event, trace = event_and_trace(7, torch.bfloat16)
    exact = move_keys(trace.keys.float(), GEOMETRY, 900)
    assert torch.equal(build_span([event], [trace], GEOMETRY, 900).keys, exact.bfloat16())
    assert torch.equal(build_span([event], [trace], GEOMETRY, 900, dtype=torch.float32).keys, exact)


def test_what_does_not_fit_is_refused():
    event, trace = event_and_trace(5)
    other, _ = event_and_trace(6)
    with pytest.raises(ValueError, match="at least one event"):
        build_span([], [], GEOMETRY, 0)
    with pytest.raises(ValueError, match=other.id):
        build_span([other], [trace], GEOMETRY, 0)
    with pytest.raises(ValueError, match="zip"):
        build_span([event, other], [trace], GEOMETRY, 0)
