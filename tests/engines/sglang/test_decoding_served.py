"""Recall while a reply is written, in a real server: a client sees its reply, its tokens and nothing of the span."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.one_server import DECODING
from tests.serving import flush_cache, generate, post, stream, stream_and_drop, turn
from tests.tiny import tiny_checkpoint, turns_of
from v14.engines.sglang.reading import FIRST_LOOK

pytestmark = pytest.mark.engine

SERVED = DECODING
NUM_TOKENS = 3 * FIRST_LOOK + 24
CHECKPOINT = tiny_checkpoint("llama")
OPENING = list(turns_of(CHECKPOINT).openings["assistant"])
HEAD = turn(CHECKPOINT, "system", 9, seed=1)


@pytest.fixture(scope="module")
def server(one_server):
    """A server that recalls one of three events with each look, whatever it is."""
    running = one_server.of(SERVED)
    for n in range(3):
        generate(running, HEAD + turn(CHECKPOINT, "user", 20 + n, seed=n), mode="write")
    return running


def prompt(seed, num_tokens=23):
    return HEAD + turn(CHECKPOINT, "user", num_tokens, seed=50 + seed) + OPENING


def recalls(reply):
    return [event["id"] for recall in reply["meta_info"]["v14"]["while_decoding"] for event in recall["recalled"]]


def test_a_stream_is_the_reply_and_tells_of_nothing_else(server):
    whole = generate(server, prompt(0), num_tokens=NUM_TOKENS, mode="read")
    parts = list(stream(server, prompt(0), num_tokens=NUM_TOKENS, mode="read"))
    assert len(parts) > NUM_TOKENS // 2
    assert parts[-1]["output_ids"] == whole["output_ids"]
    assert parts[-1]["text"] == whole["text"]
    for part in parts:
        assert part["output_ids"] == whole["output_ids"][: part["meta_info"]["completion_tokens"]]
    assert {part["meta_info"]["prompt_tokens"] for part in [*parts, whole]} == {len(prompt(0))}
    assert whole["meta_info"]["completion_tokens"] == NUM_TOKENS
    assert recalls(parts[-1]) == recalls(whole)
    first = [event["id"] for event in whole["meta_info"]["v14"]["recalled"]]
    assert len({*first, *recalls(whole)}) == 3  # nothing twice


def test_the_next_turn_stands_on_what_was_cached(server):
    ids = prompt(1)
    reply = generate(server, ids, num_tokens=NUM_TOKENS, mode="read")
    report = reply["meta_info"]["v14"]
    spans = report["span_tokens"] + sum(recall["span_tokens"] for recall in report["while_decoding"])
    longer = [*ids, *reply["output_ids"], *turns_of(CHECKPOINT).closing, *prompt(2)[len(HEAD) :]]
    again = generate(server, longer, mode="read")
    # Everything but the last token of the reply, which nobody computed; the spans are not the client's.
    assert again["meta_info"]["cached_tokens"] == len(ids) + NUM_TOKENS - 1
    assert again["meta_info"]["v14"]["span_tokens"] == spans
    assert again["meta_info"]["prompt_tokens"] == len(longer)


def test_stops_are_found_behind_a_later_span(server):
    whole = generate(server, prompt(3), num_tokens=NUM_TOKENS, mode="read")
    ids, text = whole["output_ids"], whole["text"]
    place = next(place for place in range(FIRST_LOOK + 8, NUM_TOKENS) if ids[place] not in ids[:place])
    words = next(found for found in re.findall("[A-Za-z]{5,}", text)[5:] if len(text.split(found)[0]) > len(text) // 2)

    def ask(**stop):
        params = {"max_new_tokens": NUM_TOKENS, "temperature": 0.0, "ignore_eos": "stop" in stop, **stop}
        body = {"input_ids": prompt(3), "sampling_params": params}
        reply = post(server, "/generate", body, X_V14_Memory="read", X_V14_Namespace="n")
        assert reply["meta_info"]["finish_reason"]["type"] == "stop"
        return reply

    assert ask(stop_token_ids=[ids[place]])["output_ids"] == ids[: place + 1]
    assert ask(stop=words)["text"] == text[: text.index(words)]


def test_more_than_fit_ask_at_once(server):
    """Looks wait for a place beside eight that run; every reply is whole, and SGLang counts its slots afterwards."""
    with ThreadPoolExecutor(12) as threads:
        replies = list(
            threads.map(
                lambda seed: generate(server, prompt(seed), num_tokens=NUM_TOKENS, mode="read"), range(100, 112)
            )
        )
    for reply in replies:
        assert len(reply["output_ids"]) == NUM_TOKENS
        assert reply["meta_info"]["prompt_tokens"] == len(prompt(0))
        assert all(recall["at"] >= FIRST_LOOK for recall in reply["meta_info"]["v14"].get("while_decoding", ()))
    flush_cache(server)
    assert server.tracebacks() == 0


def test_dropped_streams_leave_nothing_behind(server):
    for seed in range(200, 204):
        stream_and_drop(server, prompt(seed), namespace="n")
    time.sleep(1)
    flush_cache(server)
    assert len(generate(server, prompt(204), num_tokens=NUM_TOKENS, mode="read")["output_ids"]) == NUM_TOKENS
    assert server.tracebacks() == 0


def test_what_does_not_fit_is_not_recalled(server):
    """A context of 4,096 tokens, full with the client's own."""
    ids = prompt(5, num_tokens=4096 - 140)
    reply = generate(server, ids, num_tokens=110, mode="read")
    assert (len(reply["output_ids"]), reply["meta_info"]["prompt_tokens"]) == (110, len(ids))
    assert "while_decoding" not in reply["meta_info"]["v14"]
    assert server.tracebacks() == 0
