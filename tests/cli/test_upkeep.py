"""The commands that change a store: they refuse one that a server writes, and say what they did."""

import json

import pytest

from tests.cli.test_cli import WEIGHTS, fill, home, invoke

__all__ = ["home"]


def listed(namespace):
    return json.loads(invoke("store", "list", "--json", "--namespace", namespace).stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ("forget", "--namespace", "anna", "--yes"),
        ("ttl", "--namespace", "anna", "--days", "1"),
        ("verify",),
        ("repair", "--drop"),
        ("repair", "--catalog", WEIGHTS),
    ],
)
def test_a_store_that_a_server_writes_is_left_alone(home, arguments):
    store = fill(home)
    try:
        result = invoke_failing("store", *arguments)
        assert "is being written by process" in result
        assert "Stop that server" in result
        assert store.namespaces() == {"anna": 1, "ben": 1}
        assert store.policies() == {}
    finally:
        store.close()


def invoke_failing(*arguments):
    from typer.testing import CliRunner

    from v14.cli import app

    result = CliRunner().invoke(app, arguments)
    assert result.exception is not None
    return str(result.exception)


@pytest.mark.parametrize(
    "selection", [["--event"], ["--chat", "c"], ["--between", "9.5", "1970-01-01T00:00:11"], []], ids=str
)
def test_forget(home, selection):
    fill(home).close()
    (event,) = listed("anna")
    selection = [*selection, event["id"]] if selection == ["--event"] else selection
    result = invoke("store", "forget", "--namespace", "anna", *selection, "--yes", "--json")
    assert json.loads(result.stdout) == {"forgotten": 1, "stores": {WEIGHTS: 1}}
    assert listed("anna") == []
    assert len(listed("ben")) == 1
    (record,) = json.loads(invoke("store", "audit", "--json").stdout)
    assert (record["weights_id"], record["num_events"], record["requested_by"]) == (WEIGHTS, 1, "v14 store forget")
    assert record["finished_at"] >= record["at"] > 0
    assert event["id"] not in invoke("store", "audit", "--json").stdout
    assert "forget" in invoke("store", "audit").stdout


def test_forget_asks_and_explains(home):
    fill(home).close()
    assert invoke("store", "forget", "--yes").exit_code == 2
    assert invoke("store", "forget", "--between", "2", "1", "--yes").exit_code == 2
    assert invoke("store", "forget", "--between", "soon", "later", "--yes").exit_code == 2
    assert invoke("store", "forget", "--event", "e", "--chat", "c", "--yes").exit_code == 2
    assert invoke("store", "forget", "--namespace", "anna").exit_code == 1, "not without an answer"
    assert len(listed("anna")) == 1


def test_ttl(home):
    fill(home).close()
    assert invoke("store", "ttl", "--days", "1").exit_code == 2
    assert invoke("store", "ttl", "--namespace", "anna", "--days", "-1").exit_code == 2
    invoke("store", "ttl", "--namespace", "ben", "--days", "100000")
    result = invoke("store", "ttl", "--namespace", "ben", "--json")
    assert json.loads(result.stdout) == [{"weights_id": WEIGHTS, "namespace": "ben", "ttl_s": 100000 * 86400.0}]
    assert "ben: 100000 days" in invoke("store", "ttl").stdout
    invoke("store", "ttl", "--namespace", "ben", "--never")
    assert json.loads(invoke("store", "ttl", "--json").stdout) == []


def test_verify_and_repair(home):
    fill(home).close()
    assert invoke("store", "verify").exit_code == 0
    (segment,) = home.glob("*/segments/*")
    content = segment.read_bytes()
    segment.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    damaged = invoke("store", "verify", "--json")
    assert damaged.exit_code in (0, 1)
    segment.write_bytes(b"")
    assert invoke("store", "verify").exit_code == 1
    assert "2 events set aside, 0 of them dropped" in invoke("store", "repair").stdout
    assert json.loads(invoke("store", "repair", "--drop", "--json").stdout) == {WEIGHTS: {"set_aside": 2, "dropped": 2}}
    assert invoke("store", "verify").exit_code == 0
    next(home.glob("*/catalog.sqlite3")).unlink()
    fill(home).close()
    rebuilt = json.loads(invoke("store", "repair", "--catalog", WEIGHTS, "--json").stdout)
    assert rebuilt == {"num_events": 2, "num_without_note": 0, "num_damaged": 0}
    assert len(listed("anna")) == 1
