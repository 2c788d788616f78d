"""The Python client against servers that answer anything; test_import.py of the engine has a real one."""

import ast
import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.check.fake_server import FakeModel, serve
from v14 import client as module
from v14.cli import app
from v14.cli.asking import asking
from v14.client import Client
from v14.errors import EventFileError, ServerError


@contextmanager
def answering(status, body, seen=None):
    """A server that answers everything with one body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if seen is not None:
                seen.append((self.path, dict(self.headers), content))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.do_POST()

        def log_message(self, *args):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def test_it_needs_nothing_but_python():
    tree = ast.parse(Path(module.__file__).read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name for name in names if name.split(".")[0] not in sys.stdlib_module_names} == {"v14.errors"}


def test_a_chat_names_its_memory_and_says_what_was_recalled():
    model = FakeModel("good")
    with serve(model) as url:
        ada = Client(url, namespace="ada")
        ada.chat("My boat is called Quasar.", memory="write", max_tokens=4)
        answer = ada.chat([{"role": "user", "content": "What is my boat called?"}])
    assert [(request["namespace"], request["memory"]) for request in model.requests] == [
        ("ada", "write"),
        ("ada", "both"),
    ]
    assert (answer.text, answer.memory, answer.reason) == ("Quasar", "both", "as asked")
    (event,) = answer.recalled
    assert (event.text, event.role, event.vote, event.chat_id, event.said_at) == (
        *("My boat is called Quasar.", "user", 0.5, "c", 1.0),
    )


def test_what_was_recalled_while_the_reply_was_written():
    event = {"id": "e", "namespace": "n", "chat_id": "c", "role": "user", "said_at": 1.0, "text": "t", "vote": 2.0}
    looks = [{"at": 32, "span_tokens": 9, "recalled": [event], "votes": {"e": 2.0}, "reason": "above"}]
    body = {"choices": [{"message": {"content": "x"}}], "metadata": {"v14": {"while_decoding": looks}}}
    with answering(200, json.dumps(body).encode()) as url:
        answer = Client(url).chat("x")
    (look,) = answer.while_decoding
    assert (look.at, look.reason, [event.id for event in look.recalled]) == (32, "above", ["e"])
    assert answer.recalled == ()


def test_links_of_an_event_and_taking_one_back():
    seen = []
    event = {"id": "e", "namespace": "n", "chat_id": "c", "role": "user", "said_at": 1.0, "num_tokens": 2, "text": "t"}
    link = {"kind": "supersedes", "weight": 0.5, "outgoing": False, "event": {**event, "form": "int8"}}
    with answering(200, json.dumps({**event, "links": [link]}).encode(), seen) as url:
        ann = Client(url, namespace="ann")
        (found,) = ann.links("sha256:1")
        assert (found.kind, found.weight, found.outgoing, found.event.id) == ("supersedes", 0.5, False, "e")
        shown = CliRunner().invoke(app, ["event", "show", "sha256:1", "--server", url]).stdout
        assert "← supersedes" in shown
        listed = CliRunner().invoke(app, ["event", "show", "sha256:1", "--server", url, "--json"]).stdout
        assert [link["event"]["id"] for link in json.loads(listed)["links"]] == ["e"]
    assert seen[0][0] == "/v14/events/sha256%3A1/ties?namespace=ann"
    seen.clear()
    with answering(200, b'{"namespace": "ann", "unlinked": 1}', seen) as url:
        words = ["event", "unlink", "new", "old", "--server", url, "--namespace", "ann"]
        assert CliRunner().invoke(app, words).stdout == "1 links are taken out.\n"
    ((path, _, content),) = seen
    assert (path, json.loads(content)) == ("/v14/unlink", {"later": "new", "earlier": "old", "namespace": "ann"})


def test_what_goes_out():
    seen = []
    with answering(200, b"{}", seen) as url:
        jörg = Client(url + "/base/", namespace="jörg", key="k")
        jörg.stats()
        ann = Client(url, namespace="ann", key="k")
        ann.import_events([{"text": "é"}])
        ann.forget(["a"], chat_id="c")
        with pytest.raises(ServerError, match="gave no reply"):
            jörg.chat("x", chat_id="7", shared=("a", "b"))
    (path, headers, _), imported, forgotten, chat = seen
    assert path == "/base/v14/stats?namespace=j%C3%B6rg"
    assert headers["Authorization"] == "Bearer k"
    assert "X-V14-Namespace" not in headers
    assert (imported[0], imported[2]) == ("/v14/import?namespace=ann", '{"text": "é"}\n'.encode())
    assert imported[1]["X-V14-Namespace"] == "ann"
    assert json.loads(forgotten[2])["ids"] == ["a"]
    assert (chat[1]["X-V14-Chat"], chat[1]["X-V14-Shared"]) == ("7", "a, b")
    assert json.loads(chat[2])["user"] == "jörg"


def test_what_comes_back_and_is_no_answer():
    with (
        answering(200, b"[]") as url,
        pytest.raises(ServerError, match="something else than an object; give the address"),
    ):
        Client(url).stats()
    with answering(200, b"{") as url:
        for ask in (Client(url).stats, lambda: list(Client(url).export())):
            with pytest.raises(ServerError, match=r"cannot be asked: .*Give the address"):
                ask()
    for status, body, said in (
        (413, b'{"detail": "too much"}', r"413: too much\. Send less"),
        (500, b"oops", r"500: oops\. Look at the server's log"),
        (401, b'{"error": {"message": "a key"}}', r"401: a key\. Give the key of the namespace"),
    ):
        with answering(status, body) as url, pytest.raises(ServerError, match=said):
            Client(url).stats()
    for url in ("http://127.0.0.1:9", "http://[", "http://127.0.0.1:x"):
        with pytest.raises(ServerError, match="Give the address"):
            Client(url).stats()


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ServerError, match=r"the key cannot be read .*--key-file"):
        asking("http://127.0.0.1:9", None, tmp_path / "none")
    result = CliRunner().invoke(app, ["event", "import", str(tmp_path / "none")])
    assert isinstance(result.exception, EventFileError)
    assert "give a file of events" in str(result.exception)


def test_lines_go_to_standard_output_and_come_from_standard_input():
    with answering(200, b'{"id": "a", "text": "\xc3\xa9"}\n') as url:
        assert CliRunner().invoke(app, ["event", "export", "--server", url]).stdout == '{"id": "a", "text": "é"}\n'
    seen = []
    with answering(200, b'{"imported": 1, "known": 0, "failed": 1}', seen) as url:
        result = CliRunner().invoke(app, ["event", "import", "-", "--server", url], input='{"text": "x"}\n')
    assert (result.exit_code, seen[0][2]) == (1, b'{"text": "x"}\n')
    assert "1 events are imported, 0 were known, 1 were not read." in result.stdout
