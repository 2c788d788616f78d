"""A request looks beside itself while it decodes: when, for what, and what becomes of it."""

from types import SimpleNamespace

import pytest
import torch

from tests.fake_scheduler import CUE, NAMESPACE, Scheduler, arriving, engine_told
from tests.tiny import chat_ids, tiny_checkpoint, tiny_options, tiny_profile, turns_of
from v14.engines.sglang import retraction
from v14.engines.sglang.decoding import refused_while_decoding
from v14.engines.sglang.hooks import decoding, probe, stop
from v14.engines.sglang.passes import Pass
from v14.engines.sglang.ticket import KEY, Ticket
from v14.memory import Session
from v14.types import Plan

MAX_NEW_TOKENS = 300


class Parameters(SimpleNamespace):
    """SGLang's sampling parameters."""

    def __init__(self, **fields):
        plain = {"frequency_penalty": 0.0, "presence_penalty": 0.0, "repetition_penalty": 1.0, "min_new_tokens": 0}
        super().__init__(**{**plain, "custom_params": None, **fields})

    def normalize(self, tokenizer):
        pass


class Batch:
    """Requests that decode, as SGLang's batch of them."""

    batch_is_full = True

    def __init__(self, *reqs):
        self.reqs, self.released = list(reqs), []

    def release_req(self, idx, remaing_req_count):
        self.released.append(self.reqs[idx])

    def filter_batch(self, keep_indices):
        self.reqs = [self.reqs[place] for place in keep_indices]


@pytest.fixture
def ids():
    return chat_ids(tiny_checkpoint("llama"), [("user", "The garden door is blue.")])


@pytest.fixture
def engine(monkeypatch):
    """An engine whose namespace holds two events; what it plans is each test's own."""
    return engine_told(monkeypatch, "The roof is red.", "The train was late.", recall_while_decoding=True)


def decodes(engine, ids, monkeypatch, *, rid="r", **params):
    """A request whose prompt recalled nothing, and that decodes."""
    ticket = Ticket(namespace=NAMESPACE, mode="both", max_new_tokens=MAX_NEW_TOKENS)
    parameters = Parameters(custom_params={KEY: ticket.dump()}, max_new_tokens=MAX_NEW_TOKENS, **params)
    recv_req = arriving(rid, ids, parameters)
    engine.scheduler.handle_generate_request(recv_req)
    req = engine.scheduler.waiting_queue.pop()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "plan", lambda *args, **kwargs: Plan(reason="nothing"))
        req.v14_reading.cue = CUE
        probe.decide(req)
    return req


def writes(req, num_tokens):
    """SGLang accepts tokens one by one, and asks after each whether it was the last."""
    for _ in range(num_tokens):
        req.output_ids.append(500 + len(req.output_ids))
        assert decoding.look("result", req) == "result"


def decided(look, plan, monkeypatch, cue=CUE):
    """A look has read; returns what its plan was made of."""
    asked = []

    def planned(session, cue, token_ids, layout, room_tokens):
        asked.append((token_ids, layout, room_tokens))
        return plan

    with monkeypatch.context() as patch:
        patch.setattr(Session, "plan", planned)
        look.v14_reading.cue = cue
        look.output_ids.append(7)
        probe.decide(look)
    assert look.to_finish is not None
    assert look.finished_output is True
    return asked


def test_a_request_looks_after_32_tokens_and_then_at_doubling_intervals(engine, ids, monkeypatch):
    req = decodes(engine, ids, monkeypatch)
    looked = {}
    for num_written in range(1, MAX_NEW_TOKENS):
        writes(req, 1)
        if engine.scheduler.waiting_queue:
            looked[num_written] = engine.scheduler.waiting_queue.pop(0)
    assert list(looked) == [32, 96, 224]
    read = [*ids, *req.output_ids]
    for num_written, look in looked.items():
        reading = look.v14_reading
        assert list(look.origin_input_ids) == list(reading.sequence.token_ids) == read[: len(ids) + num_written]
        assert look.sampling_params.max_new_tokens == 1
        assert look.rid in engine.probing
        assert reading.beside is req
    # What was looked at before asks no more, and of much the last 128 tokens do.
    assert [look.v14_reading.cue_start(128) - len(ids) for look in looked.values()] == [0, 32, 96]
    assert (req.to_finish, req.customized_info[KEY][0]["reason"]) == (None, "nothing")


@pytest.mark.parametrize(
    "params",
    [{"frequency_penalty": 0.1}, {"repetition_penalty": 1.1}, {"min_new_tokens": 40}],
    ids=lambda params: next(iter(params)),
)
def test_who_counts_tokens_that_a_retraction_forgets_does_not_look(engine, ids, monkeypatch, params):
    writes(decodes(engine, ids, monkeypatch, **params), 100)
    assert not engine.scheduler.waiting_queue


def test_nobody_looks_without_the_option_or_where_nothing_is_left_to_write_or_the_queue_is_full(
    engine, ids, monkeypatch
):
    req = decodes(engine, ids, monkeypatch)
    req.sampling_params.max_new_tokens = 40
    writes(req, 35)
    full = decodes(engine, ids, monkeypatch, rid="full")
    engine.scheduler.max_queued_requests = 0
    writes(full, 35)
    engine.memory.profile = tiny_profile("llama")
    writes(decodes(engine, ids, monkeypatch, rid="off"), 35)
    assert not engine.scheduler.waiting_queue


def test_a_look_comes_first_and_an_empty_plan_changes_nothing(engine, ids, monkeypatch):
    req, other = decodes(engine, ids, monkeypatch), decodes(engine, ids, monkeypatch, rid="other")
    engine.scheduler.waiting_queue.append(other)
    before = dict(vars(req))
    writes(req, 32)
    look, waiting = engine.scheduler.waiting_queue
    assert waiting is other
    assert decided(look, Plan(), monkeypatch)
    assert not engine.due
    assert vars(req) == before


def test_what_is_recalled_stands_in_front_of_the_reply(engine, ids, monkeypatch):
    req = decodes(engine, ids, monkeypatch)
    opening = list(turns_of(tiny_checkpoint("llama")).openings["assistant"])
    sequence, told = ids[: -len(opening)], []
    for event, num_tokens in zip(engine.events, (32, 64), strict=True):
        writes(req, num_tokens)
        [(token_ids, layout, room)] = decided(engine.scheduler.waiting_queue.pop(0), Plan(events=(event,)), monkeypatch)
        # What is in place already is named, so that it is not voted for again.
        assert [placement.event_ids for placement in layout.placements] == [(recall["id"],) for recall in told]
        assert list(token_ids) == [*ids, *req.output_ids]
        assert room == Scheduler.max_req_len - len(req.origin_input_ids) - MAX_NEW_TOKENS - 1
        assert engine.due["r"] is req
        writes(req, 1)
        batch = Batch(decodes(engine, ids, monkeypatch, rid="other"), req)
        assert decoding.read_again(engine.scheduler, batch) is None
        assert batch.released == [req]
        assert [left.rid for left in batch.reqs] == ["other"]
        assert not batch.batch_is_full
        assert engine.scheduler.waiting_queue == [req]
        engine.scheduler.waiting_queue.clear()
        assert not engine.due
        sequence += event.token_ids
        assert list(req.origin_input_ids) == list(req.v14_reading.sequence.token_ids) == [*sequence, *opening]
        assert not req.full_untruncated_fill_ids
        told.append({"id": event.id})
        entry = req.customized_info[KEY][len(req.output_ids)]
        assert [recall["recalled"][0]["id"] for recall in entry["while_decoding"]] == [each["id"] for each in told]
        assert entry["while_decoding"][-1]["at"] == len(req.output_ids)
        req.output_ids.pop()  # as if it had been on its way
    # The next turn of the chat finds both where they stood.
    later = engine.memory.session(NAMESPACE).layout([*ids, *req.output_ids, *ids])
    assert [placement.event_ids for placement in later.placements] == [(event.id,) for event in engine.events]


@pytest.mark.parametrize("happened", ["finished", "aborted", "forgotten", "nearly over"])
def test_a_request_that_cannot_use_it_any_more_goes_on_as_it_is(engine, ids, monkeypatch, happened):
    req = decodes(engine, ids, monkeypatch)
    writes(req, 32)
    decided(engine.scheduler.waiting_queue.pop(0), Plan(events=tuple(engine.events)), monkeypatch)
    if happened == "finished":
        req.finished = lambda: True
    if happened == "aborted":
        req.to_finish = "aborted"
    if happened == "forgotten":
        engine.memory.forget(NAMESPACE, [engine.events[1].id])
    if happened == "nearly over":
        req.sampling_params.max_new_tokens = 40
    batch = Batch(req)
    decoding.read_again(engine.scheduler, batch)
    assert batch.reqs == [req]
    assert not batch.released
    assert not engine.due
    assert list(req.origin_input_ids) == ids


def test_a_look_that_comes_too_late_or_failed_is_ended_and_forgotten(engine, ids, monkeypatch):
    req = decodes(engine, ids, monkeypatch)
    writes(req, 32)
    look = engine.scheduler.waiting_queue.pop(0)
    req.finished = lambda: True
    assert decided(look, Plan(events=tuple(engine.events)), monkeypatch) == []
    other = decodes(engine, ids, monkeypatch, rid="other")
    writes(other, 32)
    assert decided(engine.scheduler.waiting_queue.pop(0), Plan(events=tuple(engine.events)), monkeypatch, None) == []
    assert not engine.due


def test_a_pass_of_looks_alone_stops_and_nothing_of_it_is_kept(engine, ids, monkeypatch):
    req = decodes(engine, ids, monkeypatch)
    writes(req, 32)
    look = engine.scheduler.waiting_queue.pop(0)
    num_tokens = len(look.v14_reading.sequence.token_ids)
    part = Pass(rid=look.rid, place=0, start=0, length=num_tokens, first_row=0)
    assert stop._may_stop(engine, part)
    monkeypatch.setattr(engine, "slots", lambda req, length: torch.arange(length))
    monkeypatch.setattr(probe.cues, "keep", lambda engine, reading, row: None)
    assert stop._all_recall(engine, (part,))
    assert stop.release_unread(look, None, checkpoint=True) == ((look, None), {"checkpoint": False})


def test_what_is_not_served_together_is_refused_by_name():
    one, on = SimpleNamespace(tp_size=1, speculative_algorithm=None), tiny_options(recall_while_decoding=True)
    more = SimpleNamespace(tp_size=2, speculative_algorithm="NGRAM")
    assert refused_while_decoding(one, on) == refused_while_decoding(more, tiny_options()) == []
    ranks, drafts = refused_while_decoding(more, on)
    assert "--tp-size 2 with `recall_while_decoding`" in ranks
    assert "--speculative-algorithm NGRAM with `recall_while_decoding`" in drafts


def test_older_engines_want_their_arguments_when_a_request_is_retracted():
    class Older(Batch):
        def release_req(self, idx, remaing_req_count, server_args):
            self.released.append((self.reqs[idx], server_args))

    batch = Older("a", "b", "c")
    retraction.retract(SimpleNamespace(server_args="arguments"), batch, [0, 2])
    assert batch.reqs == ["b"]
    assert batch.released == [("a", "arguments"), ("c", "arguments")]
