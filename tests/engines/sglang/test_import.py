"""Export and import through a real server: what one namespace was told, another one remembers with the same ids."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from tests.one_server import PLACED
from tests.serving import flush_cache, generate, turn
from tests.tiny import tiny_checkpoint, tokenizer_of, turns_of
from v14.cli import app
from v14.client import AsyncClient, Client
from v14.errors import ServerError
from v14.store import looking

pytestmark = pytest.mark.engine

SERVED = PLACED
FAMILY = SERVED.family


@pytest.fixture(scope="module")
def server(one_server):
    return one_server.of(SERVED)


@pytest.fixture(scope="module")
def told(server):
    """Ann's export, and two prompts that told her something: of one turn, and of three."""
    checkpoint = tiny_checkpoint(FAMILY)
    opening = list(turns_of(checkpoint).openings["assistant"])
    first = turn(checkpoint, "system", 9, seed=1) + turn(checkpoint, "user", 20, seed=100)
    generate(server, first + opening, namespace="ann")
    longer = first + turn(checkpoint, "assistant", 12, seed=101) + turn(checkpoint, "user", 300, seed=102)
    generate(server, longer + opening, namespace="ann")
    return list(Client(server.url, namespace="ann").export()), longer + opening


def asked(server, namespace):
    """What a question recalls, with what the model then says, as if nothing had been cached."""
    flush_cache(server)
    checkpoint = tiny_checkpoint(FAMILY)
    prompt = turn(checkpoint, "user", 8, seed=7) + list(turns_of(checkpoint).openings["assistant"])
    reply = generate(server, prompt, num_tokens=8, namespace=namespace, mode="read")
    return [event["id"] for event in reply["meta_info"]["v14"]["recalled"]], reply["output_ids"]


def test_what_was_exported_is_remembered_elsewhere_with_ids_times_and_chats(server, told):
    exported, _ = told
    assert len(exported) >= 5
    bob = Client(server.url, namespace="bob")
    assert bob.import_events(exported) == {
        "namespace": "bob", "num_events": len(exported), "imported": len(exported), "known": 0, "failed": 0,
    }  # fmt: skip
    assert [{**event, "namespace": "ann"} for event in bob.export()] == exported
    assert set(asked(server, "bob")[0]) == set(asked(server, "ann")[0]) == {event["id"] for event in exported}
    again = bob.import_events(exported)
    assert (again["imported"], again["known"]) == (0, len(exported))


def test_telling_it_again_stores_nothing_twice(server, told):
    exported, prompt = told
    carl = Client(server.url, namespace="carl")
    carl.import_events(exported)
    generate(server, prompt, namespace="carl")
    assert {event["id"] for event in carl.export()} == {event["id"] for event in exported}


def test_plain_words_are_read_like_a_chat(server):
    words = tokenizer_of(tiny_checkpoint(FAMILY)).decode([400, 401, 402])
    dora = Client(server.url, namespace="dora")
    done = dora.import_events([{"text": words, "said_at": 1000.0, "chat_id": "notes"}])
    assert (done["imported"], done["failed"]) == (1, 0)
    (event,) = dora.events()
    assert (event.role, event.said_at, event.chat_id) == ("user", 1000.0, "notes")
    assert words in event.text
    told = Client(server.url, namespace="emil")
    told.chat(words, max_tokens=1)
    assert [event.id for event in told.events()] == [event.id]


def test_a_bad_line_stores_nothing_and_a_foreign_namespace_is_refused(server, told):
    exported, _ = told
    fred = Client(server.url, namespace="fred")
    with pytest.raises(ServerError, match=r"400: line 2 is no event"):
        fred.import_events([exported[0], {**exported[1], "text": "something else"}])
    assert fred.stats()["num_events"] == 0
    with pytest.raises(ServerError, match="403: this request may not change the namespace 'ann'"):
        fred._json("POST", "/v14/import", b"", query={"namespace": "ann"})
    with pytest.raises(ServerError, match="403"):
        fred._json("GET", "/v14/export", query={"namespace": "ann"})


def test_the_command_line_carries_a_memory_over(server, told, tmp_path):
    file, where = str(tmp_path / "ann.jsonl"), ["--server", server.url, "--json", "--namespace"]

    def ran(*words):
        done = CliRunner().invoke(app, ["event", *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert ran("export", file, *where, "ann")["num_events"] == len(told[0])
    assert ran("import", file, *where, "gina")["imported"] == len(told[0])
    listed = ran("list", *where, "gina")
    assert ran("show", listed[0]["id"], *where, "gina") == {**listed[0], "links": []}
    found = ran("search", listed[0]["text"][-12:], *where, "gina")
    assert listed[0] in found
    assert ran("forget", listed[0]["id"], "--yes", *where, "gina")["forgotten"] == 1
    assert ran("stats", *where, "gina")["num_events"] == len(listed) - 1


async def _walk(url):
    """The asynchronous client does all that the other does."""
    client = AsyncClient(url, namespace="hugo")
    done = await client.import_events([{"text": "one two three"}])
    (event,) = await client.events()
    assert (done["imported"], await client.show(event.id)) == (1, event)
    assert await client.search(event.text[-8:]) == [event]
    assert [line["id"] for line in await client.export()] == [event.id]
    reply = await client.chat("four", memory="read", max_tokens=2)
    assert [(found.id, found.text) for found in reply.recalled] == [(event.id, event.text)]
    assert reply.memory == "read"
    story = await client.explain(reply.id)
    assert story["recalled"][0]["id"] == event.id
    assert {"namespace": "hugo", "num_events": 1, "writable": True} in await client.namespaces()
    assert (await client.stats())["num_tokens"] == event.num_tokens
    assert (await client.forget([event.id]))["forgotten"] == 1


def test_the_asynchronous_client(server):
    asyncio.run(_walk(server.url))


def test_the_audit_says_that_something_was_imported_and_not_what(server):
    (records,) = looking.audits(server.home).values()
    imports = [record for record in records if record.action == "import"]
    assert {(record.selection, record.requested_by) for record in imports} == {("file", "owner")}
    assert all(record.finished_at and record.num_events and record.num_tokens for record in imports)
