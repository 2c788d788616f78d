"""The report's JSON form and table, and what it takes to pass."""

import io
import json

from rich.console import Console

from v14.check.rows import Report
from v14.check.run import passed
from v14.check.table import MEANINGS, render

NAMES = (
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
    assert set(data) == {"model", "seed", "versions", "rows"}
    assert (data["model"], data["seed"]) == ("M", 7)
    assert data["rows"] == [
        {"name": "facts", "right": 29, "of": 30},
        {"name": "first_token_on", "value": 0.25, "unit": "s"},
    ]
    assert {"v14", "torch", "python"} <= set(data["versions"])


def test_every_promised_row_is_explained():
    assert set(NAMES) <= set(MEANINGS)


def test_table_shows_rows_and_names_what_was_skipped():
    made = report()
    made.skip("needs the log", "tracebacks")
    console = Console(file=io.StringIO(), width=160)
    console.print(render(made))
    text = console.file.getvalue()
    assert "29/30" in text
    assert "0.25 s" in text
    assert "skipped" in text
    assert "needs the log" in text


def test_only_tracebacks_fail_a_report():
    made = report()
    assert passed(made)
    made.measure("tracebacks", 0, "tracebacks")
    assert passed(made)
    made = report()
    made.measure("tracebacks", 1, "tracebacks")
    assert not passed(made)
