"""`v14 recall explain` against a server that answers with a real record, and against ones that do not."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from tests.test_explain import asked, memory_of, told
from v14.cli import app
from v14.cli.recall import fetch
from v14.errors import ServerError
from v14.explain import Standing, in_words


@pytest.fixture(scope="module")
def record():
    memory = memory_of()
    told(memory, "my [red]house[/red] is blue")
    session, plan, _ = asked(memory, "r1/é")
    ids = tuple(event.id for event in plan.events)
    session.account.stood(Standing(index=3, position=3, num_tokens=9, event_ids=ids, way="kv", composed=ids[:1]))
    return in_words(memory.records.find("r1/é", "ann").to_json(), lambda ids: f"[t{ids[0]}] ")


@pytest.fixture
def server(record):
    """Knows one request, of the namespace ann, and asks for a key."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            url = urlsplit(self.path)
            seen.append(url)
            if self.headers.get("Authorization") != "Bearer k":
                self._send(401, {"error": {"message": "a key is needed"}})
            elif url.path == "/v14/requests/r1%2F%C3%A9" and parse_qs(url.query).get("namespace") == ["ann"]:
                self._send(200, record)
            else:
                self._send(404, {"detail": "no plan is known"})

        def _send(self, status, body):
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}"
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def key(tmp_path):
    (tmp_path / "key").write_text("k\n")
    return tmp_path / "key"


def explained(server, key, *more):
    arguments = ["recall", "explain", "r1/é", "--server", server, "--namespace", "ann", "--key-file", str(key), *more]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)


def test_json_is_the_record(server, key, record):
    assert json.loads(explained(server, key, "--json").stdout) == record


def test_words_votes_recalls_spans_and_times_are_shown_as_they_are(server, key, record):
    shown = explained(server, key)
    assert shown.exit_code == 0
    for row in record["prompt"]["cue"]:
        assert row["text"].strip() in shown.stdout
    for vote in record["votes"]:
        assert f"{vote['value']:.3f}" in shown.stdout
    assert record["recalled"][0]["text"].strip() in shown.stdout
    assert "9 tokens at position 3, kv, 1 composed into recurrent states" in shown.stdout
    assert record["reason"] in shown.stdout
    assert "vote " in shown.stdout


@pytest.mark.parametrize(
    ("request_id", "with_key", "said"),
    [("r1/é", False, "--key-file"), ("r2", True, "--namespace")],
)
def test_a_refusal_says_what_to_do(server, key, request_id, with_key, said):
    with pytest.raises(ServerError, match=said):
        fetch(server, request_id, "ann", key if with_key else None)


def test_a_server_that_is_not_there():
    with pytest.raises(ServerError, match="--server"):
        fetch("http://127.0.0.1:9", "r1", None, None)
