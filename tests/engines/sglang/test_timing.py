"""What reading a span again is said to cost."""

import pytest

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
