"""The command line: its options are frozen, its errors are messages."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch
from typer.main import get_command
from typer.testing import CliRunner

import v14
from tests.check.fake_server import FakeModel, serve
from v14.cli import app, main
from v14.config import Options
from v14.errors import StoreKeyError
from v14.store.directory import DirectoryStore
from v14.store.master import key_of_file
from v14.types import Event, Trace

ASKING = ("--server", "--namespace", "--key-file", "--json")
FROZEN = {
    "upgrade": ["SRC", "OUT", "--link", "--calibration", "--device", "--json"],
    "check": ["DIRECTORY", "--url", "--seed", "--questions", "--json", "--plot", "--keep", "--server-arg"],
    "doctor": ["DIRECTORY", "--json"],
    "event list": ["--chat", *ASKING],
    "event search": ["WORDS", *ASKING],
    "event show": ["EVENT_ID", *ASKING],
    "event unlink": ["LATER", "EARLIER", *ASKING],
    "event forget": ["EVENT_ID", "--server", "--namespace", "--key-file", "--yes", "--json"],
    "event export": ["FILE", *ASKING],
    "event import": ["FILE", *ASKING],
    "event stats": [*ASKING],
    "recall explain": ["REQUEST_ID", "--server", "--namespace", "--key-file", "--json"],
    "store path": ["--json"],
    "store status": ["--json"],
    "store list": ["--json", "--namespace"],
    "store rotate-key": ["--new-key-file", "--new-key-command", "--json"],
    "store forget": ["--namespace", "--event", "--chat", "--between", "--yes", "--json"],
    "store ttl": ["--namespace", "--days", "--never", "--json"],
    "store links": ["--namespace", "--json"],
    "store unlink": ["LATER", "EARLIER", "--namespace", "--json"],
    "store audit": ["--json"],
    "store verify": ["--json"],
    "store repair": ["--drop", "--catalog", "--json"],
    "version": ["--json"],
}
WEIGHTS = "sha256:" + "a" * 64


def commands(command, name=""):
    for key, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{name} {key}".strip())
    if not getattr(command, "commands", None):
        parameters = [p for p in command.params if p.name != "help"]
        yield name, [p.opts[0] if p.param_type_name == "option" else p.name.upper() for p in parameters]


def invoke(*arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_V14_MEMORY_HOME", str(tmp_path / "memory"))
    return tmp_path / "memory"


def fill(home, **options):
    """A store that stays open, with one event in each of two namespaces."""
    store = DirectoryStore.open(home, WEIGHTS, **options)
    events = []
    for number, namespace in enumerate(("anna", "ben")):
        event = Event(
            namespace=namespace, chat_id="c", role="user", said_at=10.0 - number, token_ids=(1, 2, 3 + number)
        )
        events.append((event, Trace(keys=torch.zeros(1, 3, 1, 2), values=torch.ones(1, 3, 1, 2))))
    # At once: one commit, one segment.
    store.put(events)
    assert store.flush(10)
    return store


def test_flags_are_frozen():
    assert dict(commands(get_command(app))) == FROZEN


def test_version():
    assert invoke("version").stdout.splitlines()[0] == f"v14 {v14.__version__}"
    assert json.loads(invoke("version", "--json").stdout)["v14"] == v14.__version__


def test_what_an_upgrade_measured_as_json(tmp_path, monkeypatch):
    def make(src, out, *, link, calibration, report, device):
        report.say("on the way")
        return SimpleNamespace(
            weights_id=WEIGHTS, options=Options(recall_floor=0.5), measured={"top1": 1.0, "link": link}
        )

    monkeypatch.setattr("v14.upgrade.upgrade", make)
    result = invoke("upgrade", str(tmp_path), str(tmp_path / "out"), "--json")
    told = json.loads(result.stdout)
    assert (told["weights_id"], told["options"]["recall_floor"]) == (WEIGHTS, 0.5)
    assert told["measured"] == {"top1": 1.0, "link": "hardlink"}
    assert "on the way" in result.stderr


def test_store_of_a_home_that_is_not_there(home):
    assert invoke("store", "path").stdout.strip() == str(home)
    assert json.loads(invoke("store", "path", "--json").stdout) == {"path": str(home)}
    assert json.loads(invoke("store", "status", "--json").stdout) == []
    assert json.loads(invoke("store", "list", "--json").stdout) == []
    assert not home.exists()


def test_store_while_it_is_being_written(home):
    store = fill(home)
    try:
        (status,) = json.loads(invoke("store", "status", "--json").stdout)
        assert (status["weights_id"], status["num_events"], status["num_tokens"]) == (WEIGHTS, 2, 6)
        assert status["num_bytes"] == store.stats().num_bytes > 0
        assert status["namespaces"] == {"anna": 1, "ben": 1}
        listed = json.loads(invoke("store", "list", "--json").stdout)
        assert [(event["namespace"], event["said_at"]) for event in listed] == [("ben", 9.0), ("anna", 10.0)]
        assert listed[0]["token_ids"] == [1, 2, 4]
        assert [
            e["namespace"] for e in json.loads(invoke("store", "list", "--json", "--namespace", "anna").stdout)
        ] == ["anna"]
        assert "anna (1), ben (1)" in invoke("store", "status").stdout
        assert "1970-01-01" in invoke("store", "list").stdout
    finally:
        store.close()


def test_a_store_with_a_key(home, tmp_path, monkeypatch):
    old, new = tmp_path / "old", tmp_path / "new"
    for path, digit in ((old, "a"), (new, "b")):
        path.write_text(digit * 64)
        path.chmod(0o600)
    fill(home, master=key_of_file(old)).close()
    (status,) = json.loads(invoke("store", "status", "--json").stdout)
    assert (status["key"], status["forms"]) == (key_of_file(old).id, {"native, aesgcm": 2})
    assert status["bytes_per_event"] == status["num_bytes"] / 2
    refused = CliRunner().invoke(app, ["store", "list"])
    assert isinstance(refused.exception, StoreKeyError)
    monkeypatch.setenv("SGLANG_V14_KEY_FILE", str(old))
    assert json.loads(invoke("store", "list", "--json").stdout)[0]["token_ids"] == [1, 2, 4]
    assert "became" in invoke("store", "rotate-key", "--new-key-file", str(new)).stdout
    assert "left alone" in invoke("store", "rotate-key", "--new-key-file", str(new)).stdout
    told = json.loads(invoke("store", "rotate-key", "--new-key-file", str(new), "--json").stdout)
    assert [(store["weights_id"], store["rotated"]) for store in told] == [(WEIGHTS, False)]
    monkeypatch.setenv("SGLANG_V14_KEY_FILE", str(new))
    assert len(json.loads(invoke("store", "list", "--json").stdout)) == 2


def test_store_after_it_was_closed(home):
    fill(home).close()
    catalog = next(home.glob("*/catalog.sqlite3"))
    before = catalog.read_bytes()
    assert len(json.loads(invoke("store", "list", "--json").stdout)) == 2
    assert catalog.read_bytes() == before


def test_check_of_a_running_server(tmp_path):
    target = tmp_path / "rows.json"
    with serve(FakeModel("good")) as url:
        result = invoke("check", "--url", url, "--seed", "3", "--json", str(target))
    assert result.exit_code == 0
    assert "right_event_recalled" in result.stdout
    report = json.loads(target.read_text())
    assert (report["model"], report["seed"]) == ("fake", 3)
    assert {"name": "facts", "right": 30, "of": 30} in report["rows"]


def test_check_with_questions_of_ones_own(tmp_path):
    own, target = tmp_path / "own.json", tmp_path / "rows.json"
    own.write_text(json.dumps({"facts": [{"statement": "Das Boot heißt Ada.", "question": "Wie?", "value": "Ada"}]}))
    with serve(FakeModel("good")) as url:
        result = invoke("check", "--url", url, "--questions", str(own), "--json", str(target))
    assert result.exit_code == 0
    assert "questions of own.json" in result.stdout
    report = json.loads(target.read_text())
    assert {"name": "facts", "right": 0, "of": 1} in report["rows"]
    assert report["skipped"]["two_step"] == "own.json has no `two_step`"


@pytest.mark.parametrize("arguments", [(), ("DIR", "--url", "http://127.0.0.1:1")])
def test_check_wants_either_a_directory_or_an_address(arguments):
    assert invoke("check", *arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "/nowhere"), "no model directory"),
        (("upgrade", "/nowhere", "/nowhere-v14"), "/nowhere"),
        (("store", "status"), "SGLANG_V14_MEMRY"),
    ],
)
def test_errors_are_one_message_and_status_one(arguments, message, monkeypatch, capsys):
    if arguments[0] == "store":
        monkeypatch.setenv("SGLANG_V14_MEMRY", "1")
    monkeypatch.setattr(sys, "argv", ["v14", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
