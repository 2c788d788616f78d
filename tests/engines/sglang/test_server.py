"""The plugin in a real server on a tiny random model: what is kept apart, what is written, what survives.

Random weights recall nothing sensible, so the directory recalls everything that its namespace holds; what the model
says to it is the laws' business.
"""

import re
import threading
import time
import urllib.request

import pytest

from tests.serving import flush_cache, generate, post, serving, stream, stream_and_drop, turn
from tests.tiny import chat_ids, tiny_checkpoint, tiny_profile, tiny_v14, turns_of
from v14.cli.recall import fetch as explained
from v14.errors import ServerError
from v14.store.view import namespaces_on_disk

pytestmark = pytest.mark.engine

FAMILY = "llama"
CHECKPOINT_HEAD = 9


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def server(place):
    switches = {"SGLANG_V14_PROFILE": "1", "SGLANG_V14_TRACE": "1"}
    with serving(tiny_v14(FAMILY, place / "model"), place / "memory", "--enable-metrics", **switches) as running:
        yield running


@pytest.fixture(scope="module")
def checkpoint():
    return tiny_checkpoint(FAMILY)


@pytest.fixture(scope="module")
def prompts(checkpoint):
    """Prompts of one user turn each, ready for a reply."""
    opening = list(turns_of(checkpoint).openings["assistant"])

    def prompt(seed):
        return turn(checkpoint, "system", CHECKPOINT_HEAD, seed=1) + turn(checkpoint, "user", 20, seed=seed) + opening

    return prompt


def recalled(reply):
    return [event["id"] for event in reply["meta_info"]["v14"]["recalled"]]


def stored(place, name="memory"):
    return namespaces_on_disk(place / name, tiny_profile(FAMILY).weights_id)


def wait_for_commit(place, namespace, num_events, timeout_s=20):
    """The background writer commits within moments; a server that runs holds the store's lock."""
    deadline = time.monotonic() + timeout_s
    while stored(place).get(namespace, 0) < num_events:
        assert time.monotonic() < deadline, f"{stored(place)} after {timeout_s} s"
        time.sleep(0.1)


def test_warm_up_and_health_checks_are_not_written(server, place):
    with_health = post(
        server, "/generate", {"input_ids": [5, 6], "rid": "HEALTH_CHECK_x", "sampling_params": {"max_new_tokens": 1}}
    )
    assert with_health["meta_info"]["v14"]["memory"] == "off"
    assert stored(place) == {}


def test_what_one_namespace_was_told_is_recalled_there_only(server, place, prompts):
    told = generate(server, prompts(100), namespace="ann")
    assert recalled(told) == []
    assert len(recalled(generate(server, prompts(101), namespace="ann", mode="read"))) == 2
    assert recalled(generate(server, prompts(101), namespace="bob", mode="read")) == []
    wait_for_commit(place, "ann", 2)
    assert "bob" not in stored(place)


def test_the_prefix_cache_does_not_cross_namespaces(server, prompts):
    first = generate(server, prompts(102), namespace="carl", mode="read")
    again = generate(server, prompts(102), namespace="carl", mode="read")
    other = generate(server, prompts(102), namespace="dora", mode="read")
    off = generate(server, prompts(102), namespace="carl", mode="off")
    assert first["meta_info"]["cached_tokens"] == 0
    assert again["meta_info"]["cached_tokens"] > 20
    assert other["meta_info"]["cached_tokens"] == 0
    assert off["meta_info"]["cached_tokens"] == 0


def test_a_recall_changes_the_reply_and_turning_it_off_does_not(server, prompts):
    plain = generate(server, prompts(104), num_tokens=12, namespace="eve", mode="off")
    generate(server, prompts(103), namespace="eve")
    off = generate(server, prompts(104), num_tokens=12, namespace="eve", mode="off")
    with_memory = generate(server, prompts(104), num_tokens=12, namespace="eve", mode="read")
    assert off["output_ids"] == plain["output_ids"]
    assert len(recalled(with_memory)) == 2
    assert with_memory["output_ids"] != plain["output_ids"]


def test_a_stream_behind_a_span_is_as_the_whole_reply(server, prompts):
    """The token that the first reading gave is heard by nobody."""
    generate(server, prompts(140), namespace="olga")
    whole = generate(server, prompts(141), num_tokens=6, namespace="olga", mode="read")
    parts = list(stream(server, prompts(141), num_tokens=6, namespace="olga", mode="read"))
    assert len(recalled(whole)) == 2
    lengths = [len(part["output_ids"]) for part in parts]
    assert lengths == sorted(set(lengths))  # parts that come at once are sent as one
    assert all(part["output_ids"] == whole["output_ids"][:length] for part, length in zip(parts, lengths, strict=True))
    assert parts[-1]["output_ids"] == whole["output_ids"]
    assert {part["meta_info"]["prompt_tokens"] for part in parts} == {len(prompts(141))}
    assert recalled(parts[-1]) == recalled(whole)


def test_where_the_plan_is_empty_the_first_reading_is_the_reply(server, prompts):
    """What the prompt holds already is not recalled; the reply is that of the plain model, with the plan's reason."""
    generate(server, prompts(142), namespace="paul", mode="write", num_tokens=1)
    plain = generate(server, prompts(142), num_tokens=6, namespace="paul", mode="off")
    looked = generate(server, prompts(142), num_tokens=6, namespace="paul", mode="read")
    assert recalled(looked) == []
    assert "stand in the prompt already" in looked["meta_info"]["v14"]["reason"]
    assert looked["output_ids"] == plain["output_ids"]


def test_reading_again_stores_nothing_twice(server, prompts):
    for _ in range(3):
        generate(server, prompts(105), namespace="finn", num_tokens=3)
    report = generate(server, prompts(113), namespace="finn", mode="read")["meta_info"]["v14"]
    # Each reply had the earlier ones before it and may differ; the prompt is one event.
    assert [event["role"] for event in report["recalled"]].count("user") == 1


def test_modes_read_and_write_do_only_that(server, place, prompts):
    generate(server, prompts(106), namespace="gus", mode="write")
    wait_for_commit(place, "gus", 2)
    assert recalled(generate(server, prompts(107), namespace="gus", mode="write")) == []
    wait_for_commit(place, "gus", 4)
    assert len(recalled(generate(server, prompts(108), namespace="gus", mode="read"))) == 4
    assert stored(place)["gus"] == 4


def test_chat_routes_take_the_user_field_and_report_in_the_metadata(server):
    def chat(text, **headers):
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 3, "temperature": 0, "user": "hanna"}
        return post(server, "/v1/chat/completions", body, **headers)["metadata"]["v14"]

    assert chat("the blue house")["namespace"] == "hanna"
    told = chat("a red garden")
    assert told["memory"] == "both"
    assert any("blue house" in event["text"] for event in told["recalled"])
    assert {"votes", "floor", "reason", "vote_ms"} <= set(told)
    assert chat("a red garden", X_V14_Namespace="other")["namespace"] == "other"
    assert chat("a red garden", X_V14_Memory="off") == {"namespace": "hanna", "memory": "off", "recalled": []}


def test_bad_headers_answer_400_and_nothing_breaks(server):
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    assert post(server, "/v1/chat/completions", body, X_V14_Memory="perhaps")["status"] == 400


def test_usage_is_that_of_the_clients_own_prompt(server, prompts):
    generate(server, prompts(109), namespace="ida")
    reply = generate(server, prompts(110), namespace="ida")
    assert recalled(reply)
    assert reply["meta_info"]["prompt_tokens"] == len(prompts(110))


def test_a_later_turn_keeps_the_earlier_span_and_its_prefix_cache(server, checkpoint):
    def ids(*chat):
        return chat_ids(checkpoint, [("system", "the"), *chat])

    generate(server, ids(("user", "my house is blue")), namespace="jon")
    question = ids(("user", "is the garden red"))
    first = generate(server, question, namespace="jon", num_tokens=6)
    assert len(recalled(first)) == 2
    reply = first["output_ids"]
    second_prompt = [*question, *reply, *turns_of(checkpoint).closing, *turn(checkpoint, "user", 12, seed=3)]
    second_prompt += turns_of(checkpoint).openings["assistant"]
    second = generate(server, second_prompt, namespace="jon", mode="read")
    # All that the first turn read and wrote is reused, its span included (cached_tokens does not count span tokens).
    assert second["meta_info"]["cached_tokens"] >= len(question) + len(reply) - 2
    assert not set(recalled(first)) & set(recalled(second))


def test_a_dropped_stream_is_remembered_and_the_server_goes_on(server, place, prompts):
    stream_and_drop(server, prompts(111), namespace="kim")
    wait_for_commit(place, "kim", 1)
    reply = generate(server, prompts(112), namespace="kim", mode="read")
    assert recalled(reply)


def test_requests_at_once_answer_as_one_by_one(server, prompts):
    for seed in (120, 121):
        generate(server, prompts(seed), namespace="lea")
    seeds = range(130, 136)
    alone = [generate(server, prompts(s), namespace="lea", mode="read", num_tokens=8)["output_ids"] for s in seeds]
    together = [None] * len(seeds)

    def ask(place, seed):
        together[place] = generate(server, prompts(seed), namespace="lea", mode="read", num_tokens=8)["output_ids"]

    threads = [threading.Thread(target=ask, args=pair) for pair in enumerate(seeds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_long_prompts_are_read_in_chunks(server, checkpoint):
    opening = list(turns_of(checkpoint).openings["assistant"])
    told = turn(checkpoint, "system", CHECKPOINT_HEAD, seed=1) + turn(checkpoint, "user", 1500, seed=7) + opening
    generate(server, told, namespace="mia", num_tokens=2)
    asked = turn(checkpoint, "system", CHECKPOINT_HEAD, seed=1) + turn(checkpoint, "user", 1200, seed=8) + opening
    assert len(recalled(generate(server, asked, namespace="mia", mode="read"))) >= 12


def scraped(server):
    with urllib.request.urlopen(server.url + "/metrics", timeout=30) as reply:
        return reply.read().decode()


def test_metrics_stand_beside_sglangs_own_and_name_nobody(server, prompts):
    generate(server, prompts(140), namespace="nora-whose-name-is-hers")
    assert recalled(generate(server, prompts(141), namespace="nora-whose-name-is-hers", mode="read"))
    assert post(server, "/v1/completions", {"prompt": "x", "max_tokens": 1}, X_V14_Memory="perhaps")["status"] == 400
    wanted = ('v14_plans_total{.*result="recalling"', "v14_events{", 'v14_seconds_bucket{.*part="probe"')
    refused = 'v14_requests_refused_total{.*status="400"'
    deadline = time.monotonic() + 30
    while not all(re.search(f"^{name}.*}} [1-9]", scraped(server), re.MULTILINE) for name in (*wanted, refused)):
        assert time.monotonic() < deadline, [line for line in scraped(server).splitlines() if line.startswith("v14_")]
        time.sleep(0.5)
    text = scraped(server)
    assert "sglang:" in text
    assert "nora" not in text


def test_a_reply_names_the_id_to_ask_with(server, prompts):
    generate(server, prompts(144), namespace="pia")
    flush_cache(server)
    report = generate(server, prompts(145), namespace="pia", mode="read")["meta_info"]["v14"]
    story = explained(server.url, report["id"], "pia", None)
    assert [event["id"] for event in story["recalled"]] == [event["id"] for event in report["recalled"]]
    assert [event["text"] for event in story["recalled"]] == [event["text"] for event in report["recalled"]]
    assert story["prompt"]["token_ids"] == prompts(145)
    assert {span["way"] for span in story["spans"]} == {"kv"}
    assert {"probe", "vote", "place"} <= set(story["ms"])
    with pytest.raises(ServerError, match="404"):
        explained(server.url, report["id"], "quinn", None)


def test_the_log_says_what_was_decided_and_where_the_time_went(server, prompts):
    generate(server, prompts(142), namespace="otto")
    # What was just told stands in the prefix cache where its span will stand, and would be found there.
    flush_cache(server)
    report = generate(server, prompts(143), namespace="otto", mode="read")["meta_info"]["v14"]
    assert recalled({"meta_info": {"v14": report}})
    log = server.log.read_text()
    (decision,) = re.findall(rf"trace request={report['id']} namespace='otto' .*", log)
    assert all(f"{event['id']}={event['vote']:.3f}" in decision for event in report["recalled"])
    assert re.search(rf"trace request={report['id']} span position=\d+ tokens=\d+ way=kv events=", log)
    (spent,) = re.findall(rf"profile request={report['id']} (.*)", log)
    assert {"wait_ms", "vote_ms", "probe_ms", "fetch_ms", "place_ms"} <= {part.split("=")[0] for part in spent.split()}


def test_nothing_of_all_this_left_a_traceback(server):
    assert server.tracebacks() == 0
    assert server.running
