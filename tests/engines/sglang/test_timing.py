"""What reading a span again is said to cost."""

from contextlib import nullcontext, suppress
from types import SimpleNamespace

import pytest

from v14.engines.sglang import runtime
from v14.engines.sglang.hooks import cost
from v14.engines.sglang.timing import PassTimes, Timer


def test_a_span_costs_what_a_pass_takes_longer_with_it():
    times = PassTimes()
    times.note(40, 0.05)
    assert times.extra(300, 256, 0.07) == pytest.approx(0.02)
    assert times.extra(300, 256, 0.04) == 0.0


def test_without_a_pass_to_compare_with_a_span_costs_its_share():
    assert PassTimes().extra(400, 100, 0.08) == pytest.approx(0.02)


def test_passes_are_entered_when_their_time_is_known():
    timer = Timer()
    timer.begin("cpu")
    assert timer.end("cpu", 50, []) == []
    timer.begin("cpu")
    [(size, seconds)] = timer.end("cpu", 300, [256])
    assert size == 256
    assert seconds >= 0
    pending = [None, 1.0]
    timer.unread.append((lambda: pending[0], 64, []))
    timer.begin("cpu")
    assert timer.end("cpu", 200, [100]) == []
    pending[0] = 0.5
    timer.begin("cpu")
    assert len(timer.end("cpu", 200, [100])) == 2


def passing(engine, monkeypatch, *, reads=True):
    """A forward pass of 8 tokens, of nobody whose span is read again."""
    monkeypatch.setattr(runtime, "_runtime", engine)
    batch = SimpleNamespace(
        forward_mode=SimpleNamespace(is_extend_without_speculative=lambda: reads),
        rids=["a"],
        extend_prefix_lens_cpu=[0],
        extend_seq_lens_cpu=[8],
    )
    cost.begin_pass(SimpleNamespace(is_draft_worker=False), batch)
    cost.end_pass(None, None, batch)


def engine_of(timer, guard=nullcontext):
    memory = SimpleNamespace(guard=guard)
    return SimpleNamespace(timer=timer, memory=memory, scheduler=SimpleNamespace(device="cpu"), rereading={})


def test_only_passes_that_read_are_timed(monkeypatch):
    timer = Timer()
    passing(engine_of(timer), monkeypatch, reads=False)
    assert timer.times.seconds == {}
    passing(engine_of(timer), monkeypatch)
    assert set(timer.times.seconds) == {(8).bit_length()}


def test_a_clock_that_fails_costs_a_pass_nothing(monkeypatch):
    class Broken(Timer):
        def begin(self, device):
            raise RuntimeError("no events")

    timer = Broken()
    passing(engine_of(timer, lambda concern: suppress(RuntimeError)), monkeypatch)
    assert timer.times.seconds == {}
