"""`generate` with recurrent layers, engrams kept whole: what plain attention does not need."""

from dataclasses import replace

import pytest
import torch

from tests.hf import asking, greedy, logits_of, native, options, remembering
from tests.tiny import chat_ids, tiny_v14, turns_of
from v14.engines.transformers.cache import MemoryCache
from v14.engines.transformers.reading import read_behind
from v14.memory import Session
from v14.reinstate.transcripts import Placement
from v14.types import MAX_EVENT_TOKENS

SYSTEM = ("system", "Remember the morning train.")
FACT = ("user", "My cat is blue and the letter is in the garden.")
QUESTION = ("user", "Where is the paper story of summer?")
ROUNDING = 1e-4


@pytest.fixture(scope="module", params=["qwen3_5", "nemotron_h", "lfm2"])
def directory(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "model"
    return tiny_v14(request.param, path, write_generated=False, engram_rank=MAX_EVENT_TOKENS)


@pytest.fixture(scope="module")
def plain(directory):
    return native(directory)


@pytest.fixture
def model(directory, tmp_path):
    with remembering(directory, tmp_path / "memory") as model:
        yield model


def scores(model, ids, **kwargs):
    """The logits `[12, vocabulary]` of what is written greedily behind `ids`, and its tokens."""
    output = model.generate(
        torch.tensor([ids]),
        max_new_tokens=12,
        min_new_tokens=12,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        **kwargs,
    )
    return torch.cat(output.logits), output.sequences[0, len(ids) :].tolist()


def assert_writes_as(model, ids, plain, expected, **kwargs):
    found, read = scores(model, ids, **kwargs), scores(plain, expected)
    assert found[1] == read[1]
    assert (found[0] - read[0]).abs().max() < ROUNDING


def told_and_question(directory):
    return chat_ids(directory, [SYSTEM, FACT]), chat_ids(directory, [SYSTEM, QUESTION])


def test_what_recalls_nothing_goes_on_from_the_probe(model, plain, directory):
    told, question = told_and_question(directory)
    greedy(model, told)
    with options(model, recall_floor=1e9):
        assert_writes_as(model, question, plain, question)
        assert_writes_as(model, question[-1:], plain, question[-1:])  # No head, and a new part of one token.
    assert model.v14.counters["plans_empty"] == 2
    assert not [name for name in model.v14.counters if name.startswith("failed_")]


@pytest.mark.parametrize("way", ["kv", "reread"])
def test_a_second_turn_keeps_the_first_turns_span(model, plain, directory, way):
    told, question = told_and_question(directory)
    greedy(model, told)
    with options(model, reinstate=way):
        reply = greedy(model, question, v14_memory="read")
        first = model.v14_last
        closing = list(turns_of(directory).closing)
        second = question + reply + closing + chat_ids(directory, [("user", "Is it winter?")])
        position = first.span_position
        whole = second[:position] + list(first.plan.token_ids) + second[position:]
        assert_writes_as(model, second, plain, whole, v14_memory="read")
    assert first.reinstated == way
    assert not model.v14_last.plan.events


def test_events_behind_a_span_are_stored_as_they_were_read(model, plain, directory):
    """The question, read behind the fact's span, is stored; recalled alone it stands as it stood there."""
    told, question = told_and_question(directory)
    head = chat_ids(directory, [SYSTEM], reply=False)
    greedy(model, told)
    greedy(model, question)
    fact, stored = sorted(model.v14.store.events("default"), key=lambda event: event.said_at)
    session = model.v14.session("in one sequence")
    whole = head + list(fact.token_ids) + question[len(head) :]
    greedy(model, whole, v14_namespace=session.namespace, v14_memory="write")
    [same] = [event for event in model.v14.store.events(session.namespace) if event.token_ids == stored.token_ids]
    one, other = model.v14.store.trace("default", stored.id), model.v14.store.trace(session.namespace, same.id)
    for name, part in one.engram.tensors().items():
        torch.testing.assert_close(part, other.engram.tensors()[name], atol=ROUNDING, rtol=1e-3)


def test_what_the_model_writes_has_an_engram_too(model, directory):
    told, _ = told_and_question(directory)
    with options(model, write_generated=True):
        reply = greedy(model, told)
    greedy(model, told + reply, v14_namespace="read", v14_memory="write")
    written = model.v14.store.events("default")[-1]
    assert list(written.token_ids) == asking(directory) + reply
    one, other = (model.v14.store.trace(namespace, written.id) for namespace in ("default", "read"))
    torch.testing.assert_close(one.keys, other.keys, atol=ROUNDING, rtol=0)
    for name, part in one.engram.tensors().items():
        torch.testing.assert_close(part, other.engram.tensors()[name], atol=ROUNDING, rtol=1e-3)


@pytest.mark.parametrize("broken", ["engram", "layer"])
def test_a_span_that_fails_on_its_way_into_the_cache_is_read_again(model, plain, directory, broken, monkeypatch):
    told, question = told_and_question(directory)
    head = chat_ids(directory, [SYSTEM], reply=False)
    greedy(model, told)
    fact = list(model.v14.store.events("default")[0].token_ids)
    if broken == "engram":
        span = Session.span

        def other_models(*args):
            whole = span(*args)
            return replace(whole, engrams=[replace(e, tail=e.tail[:, :-1]) for e in whole.engrams])

        monkeypatch.setattr(Session, "span", other_models)
    else:
        append, failed = MemoryCache.append, []

        def full(cache, *args):
            # States have moved and the first layer has grown when the memory of the second one is gone.
            last = [layer for layer in cache.layers if hasattr(layer, "keys")][-1]
            last.update = lambda *_: failed.append(1) or 1 / 0
            try:
                append(cache, *args)
            finally:
                del last.update

        monkeypatch.setattr(MemoryCache, "append", full)
    assert_writes_as(model, question, plain, head + fact + question[len(head) :])
    assert model.v14.counters["failed_reinstate"] == 1
    assert model.v14_last.reinstated == "reread"
    assert broken == "engram" or failed


def test_a_span_that_fails_in_front_of_everything_is_read_again(model, plain, directory, monkeypatch):
    told, question = (chat_ids(directory, [turn]) for turn in (FACT, QUESTION))
    greedy(model, told)
    fact = list(model.v14.store.events("default")[0].token_ids)
    monkeypatch.setattr(MemoryCache, "append", lambda *_: 1 / 0)
    assert_writes_as(model, question, plain, fact + question)
    assert {name for name in model.v14.counters if name.startswith("failed_")} == {"failed_reinstate"}
    assert model.v14.counters["events_stored"] == 2


def test_no_rank_records_nothing_and_keeps_no_engram(model, directory):
    told, question = told_and_question(directory)
    with options(model, engram_rank=0):
        greedy(model, told)
        greedy(model, question)
    for event in model.v14.store.events("default"):
        assert model.v14.store.trace("default", event.id).engram is None
    assert model.v14.counters["events_stored"] == 2


def test_auto_tries_both_ways_and_then_takes_the_cheaper(model, plain, directory):
    told, question = told_and_question(directory)
    greedy(model, told)
    taken = []
    with options(model, reinstate="auto"):
        for _ in range(4):
            greedy(model, question, v14_memory="read")
            taken.append(model.v14_last.reinstated)
    assert taken[:2] == ["kv", "reread"]
    assert taken[2:] == [model.v14.costs.choose(model.v14_last.plan.events[0].num_tokens)] * 2


@pytest.mark.parametrize("parts", ["kv", "engram", "both"])
def test_an_experiment_places_what_it_wants_and_generates_behind_it(model, plain, directory, parts):
    told, question = told_and_question(directory)
    head = chat_ids(directory, [SYSTEM], reply=False)
    greedy(model, told)
    session = model.v14.session()
    [fact] = model.v14.store.events("default")
    placement = Placement(index=len(head), event_ids=(fact.id,))
    span = session.span(placement, len(head))
    with torch.no_grad():
        reading = read_behind(model, session, question, span, parts)
    sequence = list(reading.sequence.token_ids)
    assert [sequence[position] for position in reading.sequence.positions] == question
    together = head + list(fact.token_ids) + question[len(head) :]
    assert sequence == (question if parts == "engram" else together)
    found = scores(model, sequence, past_key_values=reading.cache, v14_memory="off")[0]
    distance = (found - scores(plain, together)[0]).abs().max()
    assert distance < ROUNDING if parts == "both" else distance > 100 * ROUNDING


def test_plain_forward_is_untouched(model, plain):
    ids = list(range(300, 340))
    assert torch.equal(logits_of(model, ids), logits_of(plain, ids))
