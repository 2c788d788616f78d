"""The routes under /v14/ without a server: what they show, and what they answer to whom they do not."""

import asyncio
import hashlib
import json
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI

from tests.test_explain import asked, memory_of, told
from v14.engines.sglang import control
from v14.engines.sglang.importing import Importer, import_router
from v14.engines.sglang.ranks import Ranks
from v14.engines.sglang.routes import router
from v14.events import file
from v14.events.cut import Cutter
from v14.events.turns import TurnFormat
from v14.keys import Grant
from v14.namespaces import Namespaces
from v14.types import Link

OPERATOR = {"authorization": "Bearer op"}
KEY_DIGEST = hashlib.sha256(b"op").hexdigest()


class Client:
    """Asks an application without a server."""

    def __init__(self, app, memory):
        self.memory = memory
        self._app = app

    def ask(self, method, path, headers, query=(), body=None):
        """Status and body of a request."""
        sent = []
        content = b"" if body is None else json.dumps(body).encode()
        headers = {**headers, "content-type": "application/json"}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": urlencode(query).encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "asgi": {"version": "3.0"},
        }

        async def receive():
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message):
            sent.append(message)

        asyncio.run(self._app(scope, receive, send))
        return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))

    def get(self, path, headers, query=()):
        return self.ask("GET", path, headers, query)


@pytest.fixture(scope="module")
def client():
    """The routes in front of a memory in which ann was told something and asked for it."""
    memory = memory_of()
    told(memory, "my house is blue")
    asked(memory, "chat/1")
    return client_of(memory)


def client_of(memory):
    engine = SimpleNamespace(memory=memory, settle=lambda namespace: None, num_waiting=0, ranks=Ranks())

    async def ask(what, **arguments):
        return control.answer(engine, control.order(what, **arguments))

    app = FastAPI()
    keys = {KEY_DIGEST: Grant(sha256=KEY_DIGEST, operator=True)}
    front = SimpleNamespace(namespaces=Namespaces("open", keys=keys))
    app.include_router(router(front, ask, lambda ids: f"<{len(ids)}>"))
    made = Client(app, memory)
    made.front = front
    return made


def of(namespace, **headers):
    return {"x-v14-namespace": namespace, **headers}


def test_a_record_comes_in_words(client):
    status, story = client.get("/v14/requests/chat/1", of("ann"))
    assert status == 200
    record = client.memory.records.find("chat/1", "ann").to_json()
    assert story["id"] == "chat/1"
    assert [{name: vote[name] for name in ("event_id", "value", "recalled")} for vote in story["votes"]] == [
        {name: vote[name] for name in ("event_id", "value", "recalled")} for vote in record["votes"]
    ]
    assert all(vote["event"]["id"] == vote["event_id"] for vote in story["votes"])
    assert [event["id"] for event in story["recalled"]] == [event["id"] for event in record["recalled"]]
    assert all(event["text"] == f"<{event['num_tokens']}>" for event in story["recalled"])
    assert all(row["text"] == "<1>" for row in story["prompt"]["cue"])


def test_figures_of_a_namespace_and_for_an_operator_of_the_store(client):
    status, own = client.get("/v14/stats", of("ann"))
    events = client.memory.store.events("ann")
    assert (status, own["num_events"], own["num_chats"]) == (200, 1, 1)
    assert own["num_tokens"] == sum(event.num_tokens for event in events)
    assert own["roles"] == {event.role: 1 for event in events}
    assert own["first_said_at"] == own["last_said_at"] == events[0].said_at
    assert own["store"] is own["counters"] is None
    status, whole = client.get("/v14/stats", OPERATOR, {"namespace": "ann"})
    assert (status, whole["store"]["num_events"]) == (200, 1)
    assert whole["counters"]["plans_recalling"] == client.memory.counters["plans_recalling"]
    status, nothing = client.get("/v14/stats", of("bob"))
    assert (status, nothing["num_events"], nothing["first_said_at"]) == (200, 0, None)


def test_a_link_is_shown_and_taken_back_by_its_owner():
    memory = memory_of()
    client = client_of(memory)
    told(memory, "the cat sleeps", "the cat is awake", namespace="carl")
    earlier, later = (event.id for event in memory.store.events("carl"))
    [link] = [Link(source=later, target=earlier, kind="supersedes", weight=0.5)]
    memory.store.link("carl", [link])
    space = memory.space("carl")
    space.link([link])
    path = f"/v14/events/{earlier}/ties"
    [shown] = client.get(path, of("carl"))[1]["links"]
    assert (shown["kind"], shown["weight"], shown["outgoing"], shown["event"]["id"]) == (
        "supersedes",
        0.5,
        False,
        later,
    )

    def unlink(headers, **body):
        return client.ask("POST", "/v14/unlink", headers, body={"later": later, "earlier": earlier, **body})

    assert unlink(of("bob"))[1] == {"namespace": "bob", "unlinked": 0}
    assert unlink(of("bob", **SHARED), namespace="carl")[0] == 403
    assert unlink(of("carl"), later=earlier, earlier=later)[1]["unlinked"] == 0
    assert unlink(of("carl"), kind="association")[0] == 422
    assert memory.store.links("carl") == [link]
    assert unlink(OPERATOR, namespace="carl") == (200, {"namespace": "carl", "unlinked": 1})
    assert memory.store.links("carl") == []
    assert not any(space.superseded.values())
    assert client.get(path, of("carl"))[1]["links"] == []
    assert unlink(of("carl"))[1]["unlinked"] == 0


def test_an_operator_asks_for_anybody(client):
    assert client.get("/v14/requests/chat/1", OPERATOR, {"namespace": "ann"})[0] == 200


SHARED = {"x-v14-shared": "ann"}


@pytest.mark.parametrize(
    ("path", "headers", "query", "status", "said"),
    [
        ("requests/chat/1", of("bob"), {}, 404, "name the namespace"),
        ("requests/chat/2", of("ann"), {}, 404, "only the last plans are kept"),
        ("requests/chat/1", of("bob"), {"namespace": "ann"}, 403, "may not ask about"),
        ("requests/chat/1", of("bob", **SHARED), {"namespace": "ann"}, 403, "may not ask about"),
        ("requests/chat/1", OPERATOR, {}, 403, "name one in the namespace header"),
        ("events", of("bob"), {"namespace": "ann"}, 403, "may not read"),
        ("stats", of("bob"), {"namespace": "ann"}, 403, "may not read"),
        ("events/sha256:1", of("ann"), {}, 404, "holds no event"),
        ("namespaces", of("x" * 300), {}, 400, "1 to 256 printable characters"),
    ],
)
def test_who_is_refused_what(client, path, headers, query, status, said):
    found, body = client.get(f"/v14/{path}", headers, query)
    assert (found, said in body["detail"]) == (status, True)
    assert "votes" not in body


@pytest.mark.parametrize(
    ("headers", "wanted", "status", "said"),
    [
        (of("bob"), {"namespace": "ann", "everything": True}, 403, "may not change"),
        (of("ann"), {}, 404, "say what to forget"),
        (of("ann"), {"request": "unknown"}, 404, "since the server started; name events"),
    ],
)
def test_what_is_not_forgotten(client, headers, wanted, status, said):
    found, body = client.ask("POST", "/v14/forget", headers, body=wanted)
    assert (found, said in body["detail"]) == (status, True)
    assert client.memory.store.namespaces() == {"ann": 1}


def importing(client, data, **headers):
    """What `POST /v14/import` answers where nothing is ever read."""

    async def read(token_ids, ticket):
        raise AssertionError("nothing was to be read")

    async def ask(what, **arguments):
        return {"error": "the memory is off", "status": 503}

    tokenizer = SimpleNamespace(decode=str, encode=lambda text, add_special_tokens: [4])
    cutter = Cutter(turns=TurnFormat(openings={}))
    importer = Importer(cutter=cutter, tokenizer=tokenizer, vocab_size=9, read=read, ask=ask, room_tokens=lambda: 99)
    app = FastAPI()
    app.include_router(import_router(client.front, importer))
    return Client(app, None).ask("POST", "/v14/import", of("ann", **headers), body=data)


def test_imports_that_are_refused(client, monkeypatch):
    assert importing(client, [])[0] == 400
    status, body = importing(client, {"role": "text", "text": "hello"})
    assert (status, body["detail"]) == (503, "the memory is off")
    monkeypatch.setattr(file, "MAX_BYTES", 10)
    status, body = importing(client, {"role": "text", "text": "hello"})
    assert (status, "give it in several parts" in body["detail"]) == (413, True)


def test_a_memory_that_is_off():
    told_so = control.answer(None, control.order("namespaces"))
    assert told_so["status"] == 503
    assert "the log says why" in told_so["error"]
