"""The front, against an engine of a few lines: whose memory, which mode, and what is told to whom."""

import asyncio
import hashlib
import json
from types import SimpleNamespace

import pytest

from v14.engines.sglang.front import HEALTH_CHECK_RID, USER_ATTRIBUTE, Front
from v14.engines.sglang.ticket import KEY, Ticket, radix_key
from v14.errors import RefusedError
from v14.keys import Grant
from v14.namespaces import Namespaces


class Engine:
    """Answers a request with two outputs, the first of them with the scheduler's report; keeps what it was asked."""

    def __init__(self, report=None):
        self.report = report
        self.seen = []

    async def __call__(self, obj, request):
        ticket = Ticket.of(obj.sampling_params.get("custom_params"))
        self.seen.append(SimpleNamespace(obj=obj, ticket=ticket, extra_key=obj.extra_key))
        meta = {"prompt_tokens": 30, "cached_tokens": 25}
        found = {} if self.report is None else {KEY: [None, self.report]}
        yield {"text": "a", "meta_info": {**meta, **found, "finish_reason": None}}
        yield {"text": "ab", "meta_info": {**meta, KEY: [None], "finish_reason": {"type": "stop"}}}


def request_of(**fields):
    defaults = {
        "text": None,
        "input_ids": [1, 2, 3, 4],
        "sampling_params": {"max_new_tokens": 5},
        "rid": None,
        "extra_key": None,
        "image_data": None,
        "video_data": None,
        "audio_data": None,
        "session_params": None,
        "return_logprob": False,
        "logprob_start_len": -1,
    }
    return SimpleNamespace(**{**defaults, **fields})


def front_of(up=True, namespaces=None):
    return Front(namespaces or Namespaces(), lambda: up)


def keyed(**grants):
    """A server on which the key "key of ann" grants what `ann` says."""
    made = [
        Grant(sha256=hashlib.sha256(f"key of {name}".encode()).hexdigest(), **grant) for name, grant in grants.items()
    ]
    return Namespaces("keyed", keys={grant.sha256: grant for grant in made})


def run(front, engine, obj, headers=None):
    async def collect():
        return [out async for out in front.generate(engine, obj, None, headers or {})]

    return asyncio.run(collect())


def test_a_request_is_sent_once_with_its_ticket():
    engine = Engine()
    outputs = run(front_of(), engine, request_of(), {"x-v14-chat": "c"})
    assert [s.ticket for s in engine.seen] == [Ticket(namespace="default", mode="both", chat_id="c", max_new_tokens=5)]
    assert outputs[-1]["meta_info"][KEY] == {"namespace": "default", "memory": "both", "recalled": []}


def test_the_report_comes_last_and_the_span_is_not_billed():
    outputs = run(front_of(), Engine({"span_tokens": 20, "recalled": [{"id": "sha256:a"}], "floor": 1.0}), request_of())
    assert [o["meta_info"]["prompt_tokens"] for o in outputs] == [10, 10]
    assert [o["meta_info"]["cached_tokens"] for o in outputs] == [5, 5]
    assert KEY not in outputs[0]["meta_info"]
    report = outputs[1]["meta_info"][KEY]
    assert report["recalled"] == [{"id": "sha256:a"}]
    assert report["memory"] == "both"


@pytest.mark.parametrize(
    ("headers", "user", "expected"),
    [
        ({}, None, "default"),
        ({}, "ann", "ann"),
        ({"x-v14-namespace": "team"}, "ann", "team"),
    ],
)
def test_the_namespace_comes_from_header_then_user(headers, user, expected):
    obj = request_of(**({USER_ATTRIBUTE: user} if user else {}))
    engine = Engine()
    run(front_of(), engine, obj, headers)
    assert engine.seen[0].ticket.namespace == expected
    assert engine.seen[0].extra_key == radix_key(expected, "both", None)


def test_radix_keys_of_different_namespaces_modes_and_clients_differ():
    pairs = [(n, m, k) for n in ("a", "a:", "a:b", "") for m in ("off", "both") for k in (None, ":b", "b", "a:b")]
    assert len({radix_key(*pair) for pair in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("fields", "counter"),
    [
        ({"rid": f"{HEALTH_CHECK_RID}_1"}, "health_check"),
        ({"input_ids": [[1], [2]]}, "batch"),
        ({"sampling_params": {"n": 2}}, "batch"),
        ({"image_data": ["x"]}, "multimodal"),
        ({"session_params": {"id": "s"}}, "session"),
        ({"return_logprob": True, "logprob_start_len": 0}, "prompt_logprobs"),
    ],
)
def test_what_is_not_served_with_memory_is_served_without(fields, counter):
    front, engine = front_of(), Engine()
    outputs = run(front, engine, request_of(**fields))
    assert [s.ticket for s in engine.seen] == [None]
    assert outputs[-1]["meta_info"][KEY]["memory"] == "off"
    assert front.counters[f"without_memory_{counter}"] == 1


def test_warm_up_is_served_without_memory():
    engine = Engine()
    run(front_of(up=False), engine, request_of())
    assert engine.seen[0].ticket is None


def test_a_client_cannot_send_a_ticket():
    forged = Ticket(namespace="victim", mode="both")
    obj = request_of(sampling_params={"custom_params": {KEY: forged.dump(), "theirs": 1}})
    engine = Engine()
    run(front_of(), engine, obj, {"x-v14-memory": "off"})
    assert engine.seen[0].ticket is None
    assert engine.seen[0].obj.sampling_params["custom_params"] == {"theirs": 1}


@pytest.mark.parametrize(
    "headers", [{"x-v14-memory": "always"}, {"x-v14-namespace": "a" * 257}, {"x-v14-namespace": "a\nb"}]
)
def test_bad_headers_are_refused_by_name(headers):
    with pytest.raises(ValueError, match="x-v14-"):
        run(front_of(), Engine(), request_of(), headers)


ANN = {"authorization": "Bearer key of ann"}


def test_a_key_gives_the_namespace_and_the_user_field_does_not():
    front, engine = front_of(namespaces=keyed(ann={"namespace": "ann", "shared": ("handbook",)})), Engine()
    run(front, engine, request_of(**{USER_ATTRIBUTE: "bob"}), ANN)
    assert (engine.seen[0].ticket.namespace, engine.seen[0].ticket.shared) == ("ann", ("handbook",))
    assert engine.seen[0].extra_key == radix_key("ann", "both", None)


@pytest.mark.parametrize(
    "fields", [{}, {"image_data": ["x"]}, {"input_ids": [[1], [2]]}, {"session_params": {"id": "s"}}]
)
def test_without_a_key_nothing_is_served(fields):
    engine = Engine()
    with pytest.raises(RefusedError, match="API key is needed"):
        run(front_of(namespaces=keyed(ann={"namespace": "ann"})), engine, request_of(**fields))
    assert not engine.seen


def test_a_session_could_be_anybodys():
    engine = Engine()
    with pytest.raises(RefusedError, match="sessions are not served"):
        run(front_of(namespaces=keyed(ann={"namespace": "ann"})), engine, request_of(session_params={"id": "s"}), ANN)
    assert not engine.seen


def test_the_servers_own_requests_need_no_key_and_share_nothing():
    front, engine = front_of(namespaces=keyed(ann={"namespace": "ann"})), Engine()
    for _ in range(2):
        run(front, engine, request_of(rid=f"{HEALTH_CHECK_RID}_1"))
    assert [s.ticket for s in engine.seen] == [None, None]
    assert len({s.extra_key for s in engine.seen}) == 2


def test_the_cache_keys_of_a_batch_are_kept_apart_as_well():
    """A client that guesses the key of another namespace gets one of its own."""
    victims = radix_key("ann", "both", None)
    engine = Engine()
    run(front_of(), engine, request_of(input_ids=[[1], [2]], extra_key=[victims, victims]), {"x-v14-namespace": "bob"})
    assert engine.seen[0].extra_key == [radix_key("bob", "off", victims)] * 2


def test_a_ticket_survives_its_journey():
    ticket = Ticket(namespace="n", mode="read", shared=("s",), chat_id="c", max_new_tokens=7)
    assert Ticket.of(json.loads(json.dumps({KEY: ticket.dump()}))) == ticket
    assert (ticket.reads, ticket.writes) == (True, False)
