"""A request is its own probe: what becomes of the engine's request once its plan is made."""

from types import SimpleNamespace

import pytest

from tests.fake_scheduler import CUE, NAMESPACE, arriving, engine_told
from tests.tiny import chat_ids, tiny_checkpoint
from v14.engines.sglang.hooks import probe
from v14.engines.sglang.ticket import KEY, Ticket
from v14.memory import Session
from v14.types import Plan


@pytest.fixture
def ids():
    return chat_ids(tiny_checkpoint("llama"), [("user", "The garden door is blue.")])


@pytest.fixture
def engine(monkeypatch):
    """An engine whose namespace holds one event; what it plans is each test's own."""
    return engine_told(monkeypatch, "The roof is red.")


def arrives(engine, ids, *, mode="both", namespace=NAMESPACE, rid="r"):
    ticket = Ticket(namespace=namespace, mode=mode, max_new_tokens=8)
    params = SimpleNamespace(custom_params={KEY: ticket.dump(), "theirs": 1}, max_new_tokens=8)
    recv_req = arriving(rid, ids, params)
    engine.scheduler.handle_generate_request(recv_req)
    return engine.scheduler.waiting_queue[-1]


def first_token(engine, req, plan, monkeypatch):
    """The prompt was read: SGLang appends a token and asks whether the request is over."""
    monkeypatch.setattr(Session, "plan", lambda *args, **kwargs: plan)
    req.v14_reading.cue = CUE
    req.output_ids.append(7)
    req.time_stats.append("served")
    probe.decide(req)


@pytest.mark.parametrize(
    ("mode", "namespace", "looks"), [("both", "a", True), ("write", "a", False), ("both", "b", False)]
)
def test_a_request_looks_where_it_may_recall_and_something_is_stored(engine, ids, mode, namespace, looks):
    req = arrives(engine, ids, mode=mode, namespace=namespace)
    assert req.v14_reading.is_looking is looks
    assert ("r" in engine.probing) is looks


def test_an_empty_plan_lets_the_request_go_on(engine, ids, monkeypatch):
    req = arrives(engine, ids)
    first_token(engine, req, Plan(reason="nothing fits"), monkeypatch)
    assert req.to_finish is None
    assert req.customized_info[KEY][0]["reason"] == "nothing fits"
    assert not req.v14_reading.is_looking
    probe.read_again(None, req)
    assert engine.scheduler.waiting_queue == [req]
    # It has been decided: a later token asks nothing any more.
    req.output_ids.append(8)
    probe.decide(req)
    assert req.to_finish is None


def test_a_plan_ends_the_request_unheard_and_queues_it_first_behind_its_span(engine, ids, monkeypatch):
    req = arrives(engine, ids)
    other = arrives(engine, ids, rid="other")
    first_token(engine, req, Plan(events=(engine.events[0],)), monkeypatch)
    assert req.to_finish is not None
    assert req.finished_output is True
    assert req.customized_info is None
    engine.scheduler.waiting_queue.remove(req)
    assert probe.read_again("result", req) == "result"
    again, waiting = engine.scheduler.waiting_queue
    assert waiting is other
    assert (again.rid, again.output_ids, again.time_stats) == ("r", [], [])
    assert list(again.origin_input_ids) == [*engine.events[0].token_ids, *ids]
    assert again.sampling_params.custom_params == {"theirs": 1}
    assert [event["id"] for event in again.customized_info[KEY][0]["recalled"]] == [engine.events[0].id]
    assert not again.v14_reading.is_looking
    assert not engine.ended
    # What was released is queued once.
    probe.read_again(None, req)
    assert len(engine.scheduler.waiting_queue) == 2


def test_an_aborted_request_is_not_read_again(engine, ids, monkeypatch):
    req = arrives(engine, ids)
    req.to_finish = "aborted"
    first_token(engine, req, Plan(events=(engine.events[0],)), monkeypatch)
    assert req.to_finish == "aborted"
    assert req.v14_reading.again is None


def test_a_plan_that_fails_costs_the_recall_only(engine, ids, monkeypatch):
    req = arrives(engine, ids)

    def fails(*args, **kwargs):
        raise RuntimeError("no index")

    monkeypatch.setattr(Session, "plan", fails)
    req.v14_reading.cue = CUE
    probe.decide(req)
    assert req.to_finish is None
    assert not req.v14_reading.is_looking
    assert engine.memory.counters["failed_plan"] == 1
