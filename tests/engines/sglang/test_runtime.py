"""What finished requests leave is stored behind the scheduler, in order, and waited for by its own namespace only."""

from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from types import SimpleNamespace

import pytest

from v14.engines.sglang.returning import way as way_of
from v14.engines.sglang.runtime import MAX_WRITES, Runtime


def made(*, recurrent=None, reinstate="kv", ranks=None):
    profile = SimpleNamespace(
        voters=SimpleNamespace(layers=(0,)),
        geometry=SimpleNamespace(recurrent=recurrent, placeable=True, num_heads=4, num_kv_heads=2),
        options=SimpleNamespace(reinstate=reinstate),
    )
    scheduler = SimpleNamespace(req_to_token_pool=None)
    return Runtime(SimpleNamespace(profile=profile, way=lambda num_tokens: "kv"), scheduler, ranks)


@pytest.fixture
def engine():
    return made()


@pytest.fixture
def gate():
    """Opened at the end, whatever happens: a write that waits for ever would keep the process."""
    gate = Event()
    yield gate
    gate.set()


def test_a_namespace_waits_for_its_own_writes_and_no_others(engine, gate):
    stored = []
    engine.write_behind("a", lambda: stored.append("first"))
    engine.settle("a")
    assert stored == ["first"]
    engine.write_behind("a", gate.wait)
    engine.write_behind("a", lambda: stored.append("second"))
    engine.settle("b")
    assert stored == ["first"]
    with ThreadPoolExecutor(1) as pool:
        settled = pool.submit(engine.settle, "a")
        assert not wait([settled], timeout=0.2).done
        gate.set()
        settled.result(timeout=30)
    assert stored == ["first", "second"]


def test_so_many_writes_may_wait_and_then_the_scheduler_does(engine, gate):
    engine.write_behind("a", gate.wait)
    for _ in range(MAX_WRITES - 1):
        engine.write_behind("a", lambda: None)
    with ThreadPoolExecutor(1) as pool:
        one_more = pool.submit(engine.write_behind, "a", lambda: None)
        assert not wait([one_more], timeout=0.2).done
        gate.set()
        one_more.result(timeout=30)


def test_nothing_is_kept_of_writes_that_are_done(engine):
    for name in "abcd":
        engine.write_behind(name, lambda: None)
    engine.settle("d")
    assert not engine._writes


class Second:
    """The second of two ranks."""

    size, rank, leads = 2, 1, False

    def told(self, kind, decide):
        return kind.validate_json(b'"reread"')


@pytest.mark.parametrize(
    ("kwargs", "way"),
    [
        ({}, "kv"),
        ({"reinstate": "auto"}, "kv"),
        ({"ranks": Second()}, "kv"),
        ({"ranks": Second(), "reinstate": "auto"}, "reread"),
        ({"ranks": Second(), "recurrent": SimpleNamespace()}, "reread"),
        ({"recurrent": SimpleNamespace()}, "kv"),
    ],
    ids=["placed", "chosen", "a part of it", "told", "a part of the states", "all states"],
)
def test_how_a_span_comes_back(kwargs, way):
    """What another rank cannot have is read again; what was measured is the first rank's to know."""
    assert way_of(made(**kwargs), 64) == way
