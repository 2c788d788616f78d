"""A real server that keeps namespaces apart by key: who sees what, what forgetting leaves.

Random weights recall everything that is in reach, so that nothing is hidden by not being asked for.
"""

import hashlib
import json
import random
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.process_memory import RUN, finds, scheduler_of
from tests.serving import post, serving, turn
from tests.tiny import tiny_checkpoint, tiny_v14, turns_of

pytestmark = pytest.mark.engine

SERVER_KEY = "sk-of-the-server"
PEOPLE = [f"p{number}" for number in range(20)]
"""Who asks at random; the others are each test's own."""

OTHERS = [f"u{number}" for number in range(1, 20)]
READERS = ("u3", "u4")


def key_file(place):
    """Keys "key of NAME" for everybody, an operator's, and a handbook that two of them read."""

    def entry(name, **fields):
        return {"sha256": hashlib.sha256(f"key of {name}".encode()).hexdigest(), **fields}

    keys = [entry(name, namespace=name, shared=["handbook"] if name in READERS else []) for name in (*PEOPLE, *OTHERS)]
    keys += [entry("handbook", namespace="handbook"), entry("operator", operator=True)]
    path = place / "keys.json"
    path.write_text(json.dumps({"keys": keys}))
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("apart")
    model = tiny_v14("llama", place / "model", write_generated=False)
    environment = {"SGLANG_V14_NAMESPACES": "keyed", "SGLANG_V14_KEYS": str(key_file(place))}
    with serving(model, place / "memory", "--api-key", SERVER_KEY, **environment) as running:
        yield running


def headers_of(name, **more):
    return {"Authorization": f"Bearer {SERVER_KEY}", "X_V14_Key": f"key of {name}", **more}


def prompt(seed, num_tokens=24):
    checkpoint = tiny_checkpoint("llama")
    opening = list(turns_of(checkpoint).openings["assistant"])
    return turn(checkpoint, "system", 9, seed=1) + turn(checkpoint, "user", num_tokens, seed=seed) + opening


def words_of(ids):
    """What a user's turn of `prompt` says, without the form around it."""
    form = turns_of(tiny_checkpoint("llama"))
    head = 9 + len(form.openings["user"])
    return ids[head : len(ids) - len(form.openings["assistant"]) - len(form.closing)]


def ask(server, name, ids, *, num_tokens=2, **more):
    fields = {name: more.pop(name) for name in ("extra_key", "rid") if name in more}
    params = {"max_new_tokens": num_tokens, "temperature": 0.0, "ignore_eos": True}
    return post(
        server, "/generate", {"input_ids": ids, "sampling_params": params, **fields}, **headers_of(name, **more)
    )


def get(server, name, route):
    headers = {key.replace("_", "-"): value for key, value in headers_of(name).items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(server.url + route, headers=headers), timeout=60) as reply:
            return json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": error.read().decode()}


def forget(server, name, **body):
    return post(server, "/v14/forget", body, **headers_of(name))


def report(reply):
    return reply["meta_info"]["v14"]


def recalled(server, name, seed=900):
    """Texts of all that a read-only request of a namespace recalls."""
    reply = ask(server, name, prompt(seed), X_V14_Memory="read")
    return {event["text"] for event in report(reply)["recalled"]}


def test_who_has_no_key_is_turned_away_at_the_door(server):
    body = {"input_ids": prompt(1), "sampling_params": {"max_new_tokens": 1}}
    chat = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    servers_own = {"Authorization": f"Bearer {SERVER_KEY}"}
    assert post(server, "/generate", body)["status"] == 401
    for fields in ({}, {"stream": True}, {"rid": "HEALTH_CHECK_1"}):
        refused = post(server, "/generate", {**body, **fields}, **servers_own)
        assert (refused["status"], "API key is needed" in refused["body"]) == (401, True)
    assert post(server, "/v1/chat/completions", {**chat, "stream": True}, **servers_own)["status"] == 401
    assert post(server, "/v1/chat/completions", chat, **headers_of("nobody"))["status"] == 401
    assert post(server, "/v1/chat/completions", chat, **headers_of("u1", X_V14_Namespace="u2"))["status"] == 403
    assert post(server, "/v1/chat/completions", chat, **headers_of("operator"))["status"] == 403
    told = post(server, "/v1/chat/completions", {**chat, "user": "u2"}, **headers_of("u1", X_V14_Memory="off"))
    assert told["metadata"]["v14"]["namespace"] == "u1"


def test_a_prefix_of_somebody_else_costs_what_a_new_one_costs(server):
    ids = prompt(2)
    assert ask(server, "u15", ids, X_V14_Memory="off")["meta_info"]["cached_tokens"] == 0
    assert ask(server, "u15", ids, X_V14_Memory="off")["meta_info"]["cached_tokens"] > 20
    victims = "v14:plain:3:u15:"
    for more in ({}, {"extra_key": victims}, {"extra_key": ":u15:"}):
        assert ask(server, "u16", ids, X_V14_Memory="off", **more)["meta_info"]["cached_tokens"] == 0
    batch = {"input_ids": [ids, ids], "extra_key": [victims] * 2, "sampling_params": {"max_new_tokens": 1}}
    replies = post(server, "/generate", batch, **headers_of("u17"))
    assert min(reply["meta_info"]["cached_tokens"] for reply in replies) == 0


def test_a_hundred_requests_of_twenty_people_at_once_do_not_cross(server):
    rng = random.Random(14)
    asked = [(rng.choice(PEOPLE), 1000 + number) for number in range(100)]
    own = {name: set() for name in PEOPLE}

    def serve(pair):
        name, seed = pair
        return name, seed, report(ask(server, name, prompt(seed)))

    with ThreadPoolExecutor(4) as pool:
        served = list(pool.map(serve, asked))
    for name in PEOPLE:
        page = get(server, name, "/v14/events?limit=500")
        own[name] = {event["id"] for event in page["events"]}
        assert {event["namespace"] for event in page["events"]} <= {name}
    crossings = sum(
        event["namespace"] != name or event["id"] not in own[name]
        for name, _, found in served
        for event in found["recalled"]
    )
    assert crossings == 0
    assert sum(bool(found["recalled"]) for _, _, found in served) > 40
    ids = [event_id for events in own.values() for event_id in events]
    assert len(ids) == len(set(ids)) == 100


def test_a_shared_namespace_is_read_by_those_who_may(server):
    ask(server, "handbook", prompt(3))
    [text] = [event["text"] for event in get(server, "handbook", "/v14/events")["events"]]
    assert text in recalled(server, "u3")
    assert text not in recalled(server, "u6")
    ask(server, "u3", prompt(4))
    assert [event["text"] for event in get(server, "u4", "/v14/events?namespace=handbook")["events"]] == [text]
    assert get(server, "u6", "/v14/events?namespace=handbook")["status"] == 403
    assert forget(server, "u3", namespace="handbook", everything=True)["status"] == 403
    counts = {row["namespace"]: row["writable"] for row in get(server, "u3", "/v14/namespaces")}
    assert counts == {"u3": True, "handbook": False}
    assert {"u3", "handbook"} <= {row["namespace"] for row in get(server, "operator", "/v14/namespaces")}


def test_events_are_listed_shown_searched_and_exported(server):
    for seed in (5, 6, 7):
        ask(server, "u7", prompt(seed), X_V14_Chat=f"chat-{seed}")
    page = get(server, "u7", "/v14/events?chat_id=chat-6")
    [event] = page["events"]
    assert get(server, "u7", f"/v14/events/{event['id']}") == event
    assert get(server, "u8", f"/v14/events/{event['id']}")["status"] == 404
    assert get(server, "u8", f"/v14/events/{event['id']}?namespace=u7")["status"] == 403
    word = event["text"][-40:-20].upper().replace("&", "%26").replace("#", "%23").replace("+", "%2B")
    assert event["id"] in {
        e["id"] for e in get(server, "u7", f"/v14/events?text={urllib.request.quote(word)}")["events"]
    }
    first = get(server, "u7", "/v14/events?limit=2")
    assert (len(first["events"]), first["next"]) == (2, 2)
    assert get(server, "u7", "/v14/events?limit=2&start=2")["next"] is None
    headers = {key.replace("_", "-"): value for key, value in headers_of("u7").items()}
    with urllib.request.urlopen(urllib.request.Request(server.url + "/v14/export", headers=headers)) as reply:
        lines = [json.loads(line) for line in reply.read().decode().splitlines()]
    assert {line["id"] for line in lines} >= {e["id"] for e in first["events"]}
    assert all(len(line["token_ids"]) == line["num_tokens"] for line in lines)
    with urllib.request.urlopen(urllib.request.Request(server.url + "/openapi.json", headers=headers)) as reply:
        routes = json.loads(reply.read())["paths"]
    assert {"/v14/namespaces", "/v14/events", "/v14/events/{event_id}", "/v14/export", "/v14/forget"} <= routes.keys()


def test_what_was_forgotten_is_gone_from_recall_and_cache(server):
    canary = prompt(77, num_tokens=64)
    ask(server, "u9", canary)
    reply = ask(server, "u9", prompt(78))
    [event] = report(reply)["recalled"]
    ask(server, "u9", prompt(79))
    assert forget(server, "u8", ids=[event["id"]])["forgotten"] == 0
    assert forget(server, "u8", namespace="u9", ids=[event["id"]])["status"] == 403
    done = forget(server, "u9", ids=[event["id"]])
    assert (done["forgotten"], done["in_flight"]) == (1, 0)
    again = ask(server, "u9", canary, X_V14_Memory="read")
    # It recalls the others, so that its own first reading of the system turn is there for the second.
    assert again["meta_info"]["cached_tokens"] <= 9
    assert event["text"] not in {e["text"] for e in report(again)["recalled"]} | recalled(server, "u9")


def test_of_what_was_forgotten_the_schedulers_memory_has_a_few_copies_at_most(server):
    """SGLang holds on to a few buffers of a prompt's ids (docs/security.md); what was freed is overwritten."""
    canary = prompt(70, num_tokens=64)
    ask(server, "u18", canary)
    for seed in (71, 72):
        ask(server, "u18", prompt(seed))
    pid = scheduler_of(server._process.pid)
    before = finds(pid, words_of(canary))
    assert forget(server, "u18", everything=True)["in_flight"] == 0
    left = finds(pid, words_of(canary))
    print(f"runs of a forgotten event's ids in the scheduler's memory: {len(before)}, then {len(left)}")
    runs_of_a_copy = len(words_of(canary)) // RUN
    assert len(before) > len(left) <= 4 * runs_of_a_copy


def test_everything_that_a_request_recalled_or_wrote_is_forgotten_by_its_id(server):
    ask(server, "u10", prompt(80))
    reply = ask(server, "u10", prompt(81))
    rid = reply["meta_info"]["id"]
    assert len(report(reply)["recalled"]) == 1
    told = get(server, "u10", f"/v14/requests/{rid}")
    assert [event["id"] for event in told["recalled"]] == [event["id"] for event in report(reply)["recalled"]]
    assert get(server, "u11", f"/v14/requests/{rid}")["status"] == 404
    assert get(server, "u11", f"/v14/requests/{rid}?namespace=u10")["status"] == 403
    assert forget(server, "u11", request=rid)["status"] == 404
    assert forget(server, "u10", request=rid, deed="written")["forgotten"] == 1
    assert forget(server, "u10", request=rid, deed="recalled")["forgotten"] == 1
    assert get(server, "u10", f"/v14/requests/{rid}")["status"] == 404
    assert recalled(server, "u10") == set()


def test_chats_and_times_and_whole_namespaces_are_forgotten(server):
    for seed in (82, 83, 84):
        ask(server, "u12", prompt(seed), X_V14_Chat=f"chat-{seed}")
    assert forget(server, "u12", chat_id="chat-83")["forgotten"] == 1
    assert forget(server, "u12", until=time.time() - 3600)["forgotten"] == 0
    assert forget(server, "u12", since=time.time() - 3600, chat_id="chat-84")["forgotten"] == 1
    refused = forget(server, "u12")
    assert (refused["status"], "say what to forget" in refused["body"]) == (404, True)
    assert forget(server, "operator", namespace="u12", everything=True)["forgotten"] >= 1
    assert recalled(server, "u12") == set()


def test_a_reply_that_is_being_written_from_it_ends(server):
    ask(server, "u13", prompt(85))
    seen = []

    def write():
        seen.append(ask(server, "u13", prompt(86), num_tokens=3000))

    writing = threading.Thread(target=write)
    writing.start()
    other = threading.Thread(target=lambda: seen.append(ask(server, "u14", prompt(87), num_tokens=300)))
    other.start()
    deadline = time.monotonic() + 60
    while not get(server, "u13", "/v14/events")["events"]:
        assert time.monotonic() < deadline
    time.sleep(1)
    done = forget(server, "u13", everything=True)
    assert done["in_flight"] == 0
    writing.join(60)
    other.join(60)
    ended = {reply["meta_info"]["v14"]["namespace"]: reply["meta_info"]["finish_reason"]["type"] for reply in seen}
    assert ended == {"u13": "abort", "u14": "length"}
    assert recalled(server, "u13") == set()


def test_nothing_of_all_this_left_a_traceback(server):
    assert server.tracebacks() == 0
    assert server.running
