import logging

import pytest
import torch
from transformers import GenerationConfig

from tests.hf import asking, greedy, logits_of, native, options, remembering
from tests.serving import turn
from tests.tiny import EVERY_FAMILY, FAMILIES, PLAIN, chat_ids, tiny_v14, turns_of
from v14.errors import OptionError, StoreError, TraceCorruptError
from v14.types import MAX_EVENT_TOKENS

FACT = ("user", "My cat is blue and the letter is in the garden.")
QUESTION = ("user", "Where is the paper story of summer?")
SYSTEM = ("system", "Remember the morning train.")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tiny_v14("llama", tmp_path_factory.mktemp("llama") / "model")


@pytest.fixture(scope="module")
def quiet_directory(tmp_path_factory):
    """The same, but what the model writes is not stored."""
    return tiny_v14("llama", tmp_path_factory.mktemp("llama") / "quiet", write_generated=False)


@pytest.fixture(scope="module")
def plain(directory):
    return native(directory)


@pytest.fixture
def model(quiet_directory, tmp_path):
    with remembering(quiet_directory, tmp_path / "memory") as model:
        yield model


def told_and_question(directory):
    return chat_ids(directory, [SYSTEM, FACT]), chat_ids(directory, [SYSTEM, QUESTION])


def fact_in_front(directory):
    """The fact and the question read in one sequence: what a recall has to equal."""
    told, question = told_and_question(directory)
    head = chat_ids(directory, [SYSTEM], reply=False)
    fact = told[len(head) : -len(asking(directory))]
    return head + fact + question[len(head) :]


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_empty_store_writes_what_the_plain_model_writes(family, tmp_path):
    directory = tiny_v14(family, tmp_path / "model", write_generated=False)
    plain = native(directory)
    with remembering(directory, tmp_path / "memory") as model:
        for seed in range(3):
            ids = turn(directory, "user", 20 + 17 * seed, seed=seed) + asking(directory)
            assert greedy(model, ids, v14_namespace=f"n{seed}") == greedy(plain, ids)
            assert model.v14_last.plan.reason == "nothing is stored"
        assert model.v14.counters["events_stored"] == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_recall_writes_what_reading_both_writes(family, tmp_path):
    directory = tiny_v14(family, tmp_path / "model", write_generated=False, engram_rank=MAX_EVENT_TOKENS)
    told, question = told_and_question(directory)
    together = fact_in_front(directory)
    with remembering(directory, tmp_path / "memory") as model:
        greedy(model, told)
        written = greedy(model, question)
        decision = model.v14_last
        assert written == greedy(native(directory), together)
        if family in PLAIN:  # LFM2's tiny weights write one token for ever, whatever was told.
            assert written != greedy(native(directory), question)
    head = len(chat_ids(directory, [SYSTEM], reply=False))
    assert decision.span_position == head
    assert decision.reinstated == "kv"
    assert list(decision.plan.token_ids) == together[head : len(together) - len(question) + head]
    assert decision.seconds.keys() >= {"probe", "plan", "vote", "reinstate", "fetch", "generate", "observe"}


def test_what_recalls_nothing_goes_on_from_the_probe(directory, plain, tmp_path):
    closed = tiny_v14("llama", tmp_path / "model", recall_floor=1e9)
    told, question = told_and_question(directory)
    with remembering(closed, tmp_path / "memory") as model:
        greedy(model, told)
        assert greedy(model, question) == greedy(plain, question)
        assert not model.v14_last.plan.events
        assert len(model.v14_last.plan.votes) == 2
        assert model.v14.counters["plans_empty"] == 1


def test_a_prompt_without_turns_recalls_and_is_not_stored(model, plain, quiet_directory):
    told, _ = told_and_question(quiet_directory)
    greedy(model, told)
    bare = list(range(300, 320))
    with options(model, reinstate="reread"):  # The trace was left behind a system turn.
        written = greedy(model, bare)
    assert model.v14_last.span_position == 0
    assert written == greedy(plain, [*model.v14_last.plan.token_ids, *bare]) != greedy(plain, bare)
    assert model.v14.counters["events_stored"] == 1
    assert not [name for name in model.v14.counters if name.startswith("failed_")]


def test_a_restart_forgets_nothing(quiet_directory, tmp_path):
    told, question = told_and_question(quiet_directory)
    with remembering(quiet_directory, tmp_path / "memory") as model:
        greedy(model, told)
        before = greedy(model, question, v14_memory="read")
    with remembering(quiet_directory, tmp_path / "memory") as model:
        assert greedy(model, question, v14_memory="read") == before
        assert model.v14_last.plan.events


def test_the_same_chat_read_twice_is_stored_once(model, quiet_directory):
    told, _ = told_and_question(quiet_directory)
    greedy(model, told)
    assert model.v14_last.num_stored == 1
    greedy(model, told)
    assert model.v14_last.num_stored == 0
    assert not model.v14_last.plan.events  # It stands in the prompt already.
    assert model.v14.store.namespaces() == {"default": 1}


def test_namespaces_do_not_cross(model, plain, quiet_directory):
    told, question = told_and_question(quiet_directory)
    greedy(model, told, v14_namespace="one")
    assert greedy(model, question, v14_namespace="two", v14_memory="read") == greedy(plain, question)
    assert model.v14_last.plan.reason == "nothing is stored"
    greedy(model, question, v14_namespace="one")
    assert model.v14_last.plan.events


@pytest.mark.parametrize("write_generated", [True, False])
def test_replies_are_stored_if_the_options_say_so(write_generated, tmp_path):
    directory = tiny_v14("llama", tmp_path / "model", write_generated=write_generated)
    told, _ = told_and_question(directory)
    with remembering(directory, tmp_path / "memory") as model:
        reply = greedy(model, told)
        events = model.v14.store.events("default")
        assert [event.role for event in events] == ["user", "assistant"][: 1 + write_generated]
        if not write_generated:
            return
        assert list(events[1].token_ids) == asking(directory) + reply
        # The last token was sampled and never read: its trace must be the one that reading gives.
        session = model.v14.session("other")
        ids = told + reply
        cache = model(torch.tensor([ids]), use_cache=True).past_key_values
        session.observe(ids, range(len(ids)), lambda a, b: kv(cache, a, b))
        for event in events:
            one, other = model.v14.store.trace("default", event.id), model.v14.store.trace("other", event.id)
            torch.testing.assert_close(one.keys, other.keys, atol=1e-5, rtol=0)
            torch.testing.assert_close(one.values, other.values, atol=1e-5, rtol=0)
        closing = list(turns_of(directory).closing)
        greedy(model, told + reply + closing + chat_ids(directory, [QUESTION]), v14_memory="write")
        assert model.v14.store.namespaces() == {"default": 2 + 2, "other": 2}  # The reply was known already.


def kv(cache, start, end):
    return tuple(
        torch.stack([getattr(layer, name)[0, :, start:end].transpose(0, 1) for layer in cache.layers]).detach()
        for name in ("keys", "values")
    )


def test_a_second_turn_keeps_the_first_turns_span(model, plain, quiet_directory):
    directory = quiet_directory
    told, question = told_and_question(directory)
    greedy(model, told)
    reply = greedy(model, question, v14_memory="read")
    first = model.v14_last
    closing = list(turns_of(directory).closing)
    second = question + reply + closing + chat_ids(directory, [("user", "Is it winter?")])
    written = greedy(model, second, v14_memory="read")
    assert not model.v14_last.plan.events  # All there is stands in front of the first turn already.
    position = first.span_position
    whole = second[:position] + list(first.plan.token_ids) + second[position:]
    assert written == greedy(plain, whole)
    assert written != greedy(plain, second)

    greedy(model, chat_ids(directory, [("user", "The doctor is in the city.")]), v14_memory="write")
    written = greedy(model, second, v14_memory="read")
    new = model.v14_last
    assert [event.role for event in new.plan.events] == ["user"]
    # Two spans now; the second one, told without the system's words, is approximate but stands where it should.
    assert new.span_position == len(question + reply + closing) + len(first.plan.token_ids)


def test_modes(model, plain, quiet_directory):
    told, question = told_and_question(quiet_directory)
    greedy(model, told, v14_memory="off")
    assert model.v14_last is None
    greedy(model, told, v14_memory="read")
    assert model.v14.store.namespaces() == {}
    greedy(model, told, v14_memory="write")
    assert model.v14.store.namespaces() == {"default": 1}
    for mode in ("off", "write"):
        assert greedy(model, question, v14_memory=mode, v14_namespace="default") == greedy(plain, question)
    with pytest.raises(OptionError, match="v14_memory='on'"):
        greedy(model, told, v14_memory="on")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"num_beams": 2}, "num_beams=2"),
        ({"use_cache": False}, "use_cache=False"),
        ({"num_return_sequences": 2, "do_sample": True}, "num_return_sequences=2"),
        ({"cache_implementation": "static"}, "cache_implementation='static'"),
        ({"attention_mask": torch.tensor([[0] + [1] * 19])}, "padding in the prompt"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_have_memory_runs_without_and_says_so_once(model, plain, arguments, reason, caplog):
    ids = torch.arange(300, 320)[None]
    with caplog.at_level(logging.WARNING, logger="v14"):
        for _ in range(2):
            torch.manual_seed(0)
            output = model.generate(ids, max_new_tokens=4, **arguments)
    torch.manual_seed(0)
    assert torch.equal(output, plain.generate(ids, max_new_tokens=4, **arguments))
    assert [record.message for record in caplog.records] == [f"generating without memory: {reason}"]
    assert model.v14.counters["without_memory"] == 2
    assert model.v14_last is None
    assert model.v14.store.namespaces() == {}


def test_batches_and_embeddings_run_without(model, plain):
    ids = torch.arange(300, 340).view(2, 20)
    assert torch.equal(model.generate(ids, max_new_tokens=4), plain.generate(ids, max_new_tokens=4))
    embedded = plain.get_input_embeddings()(ids[:1])
    ours = model.generate(inputs_embeds=embedded, max_new_tokens=4)
    assert torch.equal(ours, plain.generate(inputs_embeds=embedded, max_new_tokens=4))
    assert model.v14.counters["without_memory"] == 2


class Listener:
    def __init__(self):
        self.put_values, self.ended = [], False

    def put(self, value):
        self.put_values.append(value.flatten().tolist())

    def end(self):
        self.ended = True


def test_nothing_shows_the_span(model, quiet_directory):
    """Streamer, total lengths and returned ids speak of the real prompt."""
    told, question = told_and_question(quiet_directory)
    greedy(model, told)
    written = greedy(model, question, v14_memory="read")
    prompt, listener = torch.tensor([question]), Listener()
    settings = {"max_length": len(question) + 12, "min_length": len(question) + 12, "do_sample": False}
    output = model.generate(
        input_ids=prompt, streamer=listener, return_dict_in_generate=True, v14_memory="read", **settings
    )
    assert output.sequences.tolist() == [question + written]
    assert listener.put_values == [question, *([token] for token in written)]
    assert listener.ended
    assert model.v14_last.plan.events
    given = GenerationConfig(**settings, pad_token_id=0)
    assert model.generate(prompt, given, v14_memory="read").tolist() == [question + written]
    assert given.max_length == settings["max_length"]


def test_the_spans_room_is_what_the_context_leaves(model, quiet_directory, monkeypatch):
    told, question = told_and_question(quiet_directory)
    greedy(model, told)
    monkeypatch.setattr(model.config, "max_position_embeddings", len(question) + 12 + 5)
    greedy(model, question, v14_memory="read")
    assert "5 tokens" in model.v14_last.plan.reason
    assert not model.v14_last.plan.events


@pytest.mark.parametrize("where", ["layout", "plan", "sequence", "record", "observe"])
def test_a_failing_memory_never_breaks_generate(model, plain, quiet_directory, where, monkeypatch, caplog):
    told, question = told_and_question(quiet_directory)
    greedy(model, told)

    def fail(*args, **kwargs):
        raise RuntimeError("out of order")

    from v14.memory import Session

    monkeypatch.setattr(Session, where, fail)
    expected = question if where not in ("record", "observe") else fact_in_front(quiet_directory)
    assert greedy(model, question) == greedy(plain, expected)
    failed = {name: n for name, n in model.v14.counters.items() if name.startswith("failed_")}
    assert failed == {f"failed_{where if where in ('record', 'observe') else 'recall'}": 1}
    assert "out of order" in caplog.text


def test_a_broken_trace_is_read_again(model, plain, quiet_directory, monkeypatch):
    told, question = told_and_question(quiet_directory)
    greedy(model, told)

    def fail(namespace, event_id):
        raise TraceCorruptError("bad block")

    monkeypatch.setattr(model.v14.store, "trace", fail)
    assert greedy(model, question) == greedy(plain, fact_in_front(quiet_directory))
    assert model.v14.counters["failed_reinstate"] == 1
    assert model.v14_last.plan.events


def test_reread_needs_no_trace(tmp_path, monkeypatch):
    directory = tiny_v14("gemma3", tmp_path / "model", reinstate="reread", write_generated=False)
    told, question = told_and_question(directory)
    with remembering(directory, tmp_path / "memory") as model:
        greedy(model, told)
        monkeypatch.setattr(model.v14.store, "trace", None)
        assert greedy(model, question) == greedy(native(directory), fact_in_front(directory))
        assert not [name for name in model.v14.counters if name.startswith("failed_")]


def test_a_store_that_cannot_be_opened_leaves_the_plain_model(quiet_directory, plain, tmp_path):
    (tmp_path / "memory").write_text("not a directory")
    told, _ = told_and_question(quiet_directory)
    with remembering(quiet_directory, tmp_path / "memory") as model:
        assert not model.v14.available
        assert greedy(model, told) == greedy(plain, told)
        with pytest.raises(StoreError):
            _ = model.v14.store


def test_training_and_plain_forward_are_untouched(model, plain):
    ids = list(range(300, 340))
    assert torch.equal(logits_of(model, ids), logits_of(plain, ids))
    loss = model(torch.tensor([ids]), labels=torch.tensor([ids])).loss
    loss.backward()
    assert model.lm_head.weight.grad.abs().sum() > 0


def test_what_only_sglang_does_is_said_once(tmp_path, caplog):
    directory = tiny_v14("llama", tmp_path / "model", recall_while_decoding=True)
    with caplog.at_level(logging.WARNING, "v14"), remembering(directory, tmp_path / "memory"):
        pass
    assert [
        record.message for record in caplog.records if "recall_while_decoding is served by SGLang" in record.message
    ]
