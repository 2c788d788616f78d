"""The demo's report: what it counts is what the server answered, and an interrupted run goes on."""

import importlib.util
import io
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from tests.check.fake_server import FakeModel, serve
from v14.check.client import Account, Recalled, Reply

ROOT = Path(__file__).parents[2]


@pytest.fixture
def demo(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("demo_under_test", ROOT / "demo" / "demo.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "demo_under_test", module)
    spec.loader.exec_module(module)
    for name in ("CHECKPOINT", "DIRECTORY", "HOME", "TOLD"):
        monkeypatch.setattr(module, name, tmp_path / getattr(module, name).name)
    monkeypatch.setattr(module, "ROOM", tmp_path)
    monkeypatch.setattr(module, "prepare", lambda console: None)
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)
    return module


class Remembering(FakeModel):
    """Recalls the fact whose question is asked, from what was told in the namespace."""

    facts = ()

    def answer(self, messages, namespace, memory):
        text, account = super().answer(messages, namespace, memory)
        for fact in self.facts:
            if messages[-1]["content"] == fact.asked and memory == "both" and fact.told in self.stored[namespace]:
                event = {"id": "sha256:1", "role": "user", "vote": 0.7, "text": f"user\n{fact.told}"}
                return f"It is {fact.value}.", account | {
                    "recalled": [event],
                    "votes": [{"id": "sha256:1", "value": 0.7}],
                }
        return text, account


@pytest.fixture
def run(demo, monkeypatch, capsys):
    """Runs the demo against a fake model; each start of the server is counted."""
    model = Remembering()
    model.facts = demo.FACTS
    model.starts = 0

    @contextmanager
    def served(server, progress, name):
        model.starts += 1
        with serve(model) as url:
            yield demo.ChatClient(url=url, namespace=demo.NAMESPACE)

    monkeypatch.setattr(demo, "served", served)

    def go():
        demo.main()
        return capsys.readouterr().out

    return go, model


def test_tells_restarts_asks(demo, run):
    go, model = run
    output = go()
    assert output.splitlines()[-1] == "remembered 3 of 3"
    assert model.starts == 2
    assert [request["memory"] for request in model.requests] == ["both"] * 3 + ["off", "both"] * 3
    assert "It is Bosun." in output
    assert "best votes 0.7; floor 0.1; as asked" in output
    assert not demo.TOLD.exists()


def test_an_interrupted_run_does_not_tell_again(demo, run):
    go, model = run
    demo.TOLD.touch()
    model.stored[demo.NAMESPACE] = [fact.told for fact in demo.FACTS[:2]]
    output = go()
    assert model.starts == 1
    assert output.splitlines()[-1] == "remembered 2 of 3"
    assert "Not everything was remembered" in output


def test_what_was_recalled_is_told(demo):
    account = Account(
        recalled=(Recalled(id="sha256:1", role="user", vote=0.25, text="a\nb"),), votes=(0.25, 0.1), floor=0.2
    )
    lines = dict(demo.recall_lines(Reply(text="", account=account)))
    assert lines["recalled"] == "user said: a b (vote 0.25)"
    assert lines["why"].startswith("best votes 0.25, 0.1; floor 0.2")
    assert dict(demo.recall_lines(Reply(text="", account=Account())))["recalled"] == "nothing"
    assert "plugin" in dict(demo.recall_lines(Reply(text="")))["recalled"]


def test_report_counts_only_whole_values(demo):
    fact = demo.FACTS[2]
    assert demo.Answer(fact=fact, on=Reply(text="It is 7302."), off=Reply(text="")).remembered
    assert not demo.Answer(fact=fact, on=Reply(text="It is 73021."), off=Reply(text="7302")).remembered
    console = Console(file=io.StringIO(), width=120)
    demo.report([demo.Answer(fact=fact, on=Reply(text="[b]7302[/b]"), off=Reply(text="no"))], console)
    assert "[b]7302[/b]" in console.file.getvalue()
