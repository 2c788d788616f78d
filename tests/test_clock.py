"""Times: added up by part, told to whoever listens, also when the work fails."""

import pytest

from v14.clock import PARTS, Clock


def test_parts_add_up_and_listeners_hear_each():
    heard = []
    clock = Clock(listeners=[lambda part, seconds: heard.append(part)])
    for part in ("vote", "fetch", "vote"):
        with clock.measure(part):
            pass
    clock.add("probe", 0.25)
    assert heard == ["vote", "fetch", "vote", "probe"]
    assert set(clock.seconds) == {"vote", "fetch", "probe"}
    assert clock.milliseconds()["probe"] == 250.0
    assert str(clock).split()[-1] == "probe_ms=250.00"


def test_what_fails_is_timed_and_the_error_passes():
    clock = Clock()
    with pytest.raises(ValueError, match="no"), clock.measure("place"):
        raise ValueError("no")
    assert clock.seconds["place"] >= 0


def test_every_part_says_what_it_is():
    assert all(meaning for meaning in PARTS.values())
