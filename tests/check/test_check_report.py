"""The report's JSON form and table, and what it takes to pass."""

import io
import json
import sys
from datetime import datetime

import pytest
from rich.console import Console

from v14.check.plot import ceiling, check_plot, draw, ratio
from v14.check.reference import FIGURES
from v14.check.rows import Report
from v14.check.run import passed
from v14.check.table import MEANINGS, render
from v14.errors import CheckError

NAMES = (
    *("corrected_once", "corrected_twice", "two_step", "picture", "document_stored", "accept_length"),
    *("facts_after_chats", "unrelated_after_chats", "prefix_cold", "prefix_after_pause", "store_bytes", "store_events"),
    *("facts", "facts_same_chat", "facts_memory_off", "facts_after_restart", "right_event_recalled"),
    *("unrelated", "unrelated_memory_off", "unrelated_recalling", "four_at_once", "long_prompt", "dropped_stream"),
    *("tracebacks", "first_token_on", "first_token_off", "decode_on", "decode_off", "bytes_per_token"),
)


def report():
    made = Report(model="M", seed=7)
    made.count("facts", 29, 30)
    made.measure("first_token_on", 0.25, "s")
    return made


def test_json_form():
    data = json.loads(json.dumps(report().to_json()))
    assert set(data) == {
        *("model", "seed", "questions", "began", "seconds", "complete", "machine", "versions", "rows", "skipped"),
        "other_system",
    }
    assert datetime.fromisoformat(data["began"]).tzinfo is not None
    assert data["machine"]["cores"] >= 1
    assert data["other_system"]["rows"]["two_step"] == ["3/6", "1/6"]
    assert (data["model"], data["seed"]) == ("M", 7)
    assert data["rows"] == [
        {"name": "facts", "right": 29, "of": 30},
        {"name": "first_token_on", "value": 0.25, "unit": "s"},
    ]
    assert {"v14", "torch", "python"} <= set(data["versions"])


def test_a_check_that_breaks_off_leaves_what_it_has():
    seen = []
    made = Report(model="M", seed=7, changed=lambda report: seen.append(report.to_json()))
    made.count("facts", 1, 2)
    made.end()
    assert [(len(data["rows"]), data["complete"]) for data in seen] == [(1, False), (1, True)]


def test_every_promised_row_is_explained():
    assert set(NAMES) <= set(MEANINGS)
    assert set(FIGURES) <= set(MEANINGS)


def test_table_shows_rows_and_names_what_was_skipped():
    made = report()
    made.skip("needs the log", "tracebacks")
    console = Console(file=io.StringIO(), width=240)
    console.print(render(made))
    text = console.file.getvalue()
    assert "29/30" in text
    assert "0.25 s" in text
    assert "skipped" in text
    assert "needs the log" in text
    assert "5/6" in text
    assert "another machine" in text


def test_plots(tmp_path):
    made = report()
    made.count("facts_same_chat", 30, 30)
    made.measure("first_token_off", 0.2, "s")
    assert (ceiling(made, "facts"), ceiling(made, "two_step")) == (1.0, None)
    assert ratio(made, "first_token_on", "first_token_off") == 1.25
    assert ratio(made, "decode_on", "decode_off") is None
    for name, opening in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG")):
        draw(made, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(opening)
    assert "29/30" in (tmp_path / "a.svg").read_text()


def test_plots_that_cannot_be_drawn_are_refused_before_anything_is_asked(tmp_path, monkeypatch):
    with pytest.raises(CheckError, match=r"ends in \.svg or \.png"):
        check_plot(tmp_path / "a.pdf")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CheckError, match=r"pip install 'sglang-v14\[plot\]'"):
        check_plot(tmp_path / "a.svg")


def test_only_tracebacks_fail_a_report():
    made = report()
    assert passed(made)
    made.measure("tracebacks", 0, "tracebacks")
    assert passed(made)
    made = report()
    made.measure("tracebacks", 1, "tracebacks")
    assert not passed(made)
