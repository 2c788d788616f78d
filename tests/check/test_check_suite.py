"""The check tells servers apart: one that remembers, one that does not, one that recalls the wrong thing."""

import pytest

from tests.check.fake_server import FakeModel, serve
from v14.check import suite
from v14.check.client import ChatClient
from v14.check.document import document
from v14.check.picture import picture
from v14.check.questions import NUM_FACTS, english
from v14.check.rows import Report
from v14.check.run import check_url, passed
from v14.check.suite import Suite
from v14.errors import CheckError


def quiet(name, total):
    return lambda: None


def values(model, seed=0):
    with serve(model) as url:
        return {
            row.name: getattr(row, "right", getattr(row, "value", None))
            for row in check_url(url, english(seed), seed=seed, phase=quiet).rows
        }


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_perfect_memory_has_every_row_right(seed):
    rows = values(FakeModel("good"), seed)
    assert rows["facts"] == rows["facts_same_chat"] == rows["right_event_recalled"] == NUM_FACTS
    assert rows["facts_memory_off"] == 0
    assert rows["unrelated"] == rows["unrelated_memory_off"] == 10
    assert rows["unrelated_recalling"] == 0
    assert (rows["four_at_once"], rows["long_prompt"], rows["dropped_stream"]) == (4, 1, 1)
    assert rows["timed_recalling"] == 7
    assert rows["failed_requests"] == 0
    assert rows["long_prompt_tokens"] > 1700
    assert rows["facts_after_chats"] == rows["right_event_recalled_after_chats"] == NUM_FACTS
    assert rows["unrelated_after_chats"] == 10
    for name in ("corrected_once", "corrected_twice", "two_step"):
        assert rows[name] == rows[f"{name}_same_chat"] == 6, name
    assert rows["two_step_recalled"] == 6
    assert rows["document_fact"] == rows["document_fact_same_chat"] == 1
    assert rows["document_tokens"] > 900
    assert 0 < rows["document_read"] <= rows["document_stored"]
    assert all(rows[f"prefix_{moment}"] > 0 for moment in ("cold", "right_behind", "after_pause", "cold_off"))
    assert all(rows[name] > 0 for name in ("first_token_on", "first_token_off", "decode_on", "decode_off"))


def test_without_memory_nothing_is_remembered_and_the_ceiling_stays(monkeypatch):
    monkeypatch.setattr(suite, "DROP_PATIENCE_S", 0.1)
    rows = values(FakeModel("none"))
    assert rows["facts"] == rows["right_event_recalled"] == rows["facts_memory_off"] == 0
    assert rows["facts_same_chat"] == NUM_FACTS
    assert rows["unrelated"] == 10
    assert (rows["four_at_once"], rows["long_prompt"], rows["dropped_stream"]) == (0, 0, 0)
    assert (rows["corrected_once"], rows["corrected_twice"], rows["two_step"], rows["document_fact"]) == (0, 0, 0, 0)
    assert (rows["corrected_once_same_chat"], rows["two_step_same_chat"]) == (6, 6)
    assert "timed_recalling" not in rows


def test_a_wrong_event_is_no_right_event(monkeypatch):
    monkeypatch.setattr(suite, "DROP_PATIENCE_S", 0.1)
    rows = values(FakeModel("wrong"))
    assert rows["right_event_recalled"] == rows["facts"] == rows["dropped_stream"] == 0


def test_recalling_for_unrelated_questions_is_counted():
    rows = values(FakeModel("eager"))
    assert rows["unrelated_recalling"] == 10
    assert rows["facts"] == NUM_FACTS


def test_a_run_keeps_to_a_namespace_of_its_own_and_writes_nothing_when_it_should_not():
    model = FakeModel("good")
    with serve(model) as url:
        check_url(url, english(0), seed=0, phase=quiet)
        check_url(url, english(0), seed=0, phase=quiet)
    assert len({request["namespace"] for request in model.requests}) == 2
    assert all(namespace.startswith("check-0-") for namespace in model.stored)
    asked = {request["messages"][-1]["content"] for request in model.requests if request["memory"] == "read"}
    written = {text for texts in model.stored.values() for text in texts}
    assert "What is the capital of" not in " ".join(written)
    assert asked


def test_rows_that_need_a_server_of_their_own_are_named_as_skipped():
    with serve(FakeModel("good")) as url:
        report = check_url(url, english(0), seed=0, phase=quiet)
    skipped = {"facts_after_restart", "right_event_recalled_after_restart", "unrelated_after_restart",
               "unrelated_recalling_after_restart", "bytes_per_token", "store_bytes", "store_events", "store_tokens",
               "tracebacks", "picture", "picture_same_chat", "accept_length"}  # fmt: skip
    assert set(report.skipped) == skipped
    assert not skipped & {row["name"] for row in report.to_json()["rows"]}
    assert passed(report)


def test_failing_requests_are_wrong_answers_while_the_server_lives_and_the_end_when_it_does_not():
    model = FakeModel("good", failing=True)
    with serve(model) as url:
        report = Report(model="fake", seed=0)
        asking = Suite(client=ChatClient(url=url), report=report, questions=english(report.seed))
        asking.ask()
        assert report.value("facts") == 0
        assert len(asking.failures) == NUM_FACTS
        asking.alive = lambda: False
        with pytest.raises(CheckError, match="500"):
            asking.ask()


class Forgetful(FakeModel):
    """Recalls the first of what it should, and no more."""

    def _recall(self, events, question):
        return super()._recall(events, question)[:1]


def test_an_outdated_value_is_no_right_answer_and_one_of_two_statements_not_both():
    rows = values(Forgetful("good"))
    assert rows["corrected_once"] == rows["corrected_twice"] == rows["two_step"] == rows["two_step_recalled"] == 0
    assert rows["facts"] == NUM_FACTS


@pytest.mark.parametrize(("pictures", "right"), [("none", None), ("forgotten", None), ("remembered", 1)])
def test_a_picture_is_asked_about_where_it_is_taken_and_remembered(pictures, right):
    report = Report(model="fake", seed=3)
    with serve(FakeModel("good", pictures=pictures)) as url:
        picture(Suite(client=ChatClient(url=url), report=report, questions=english(report.seed)))
    assert report.value("picture") == right
    assert report.value("picture_same_chat") == (None if pictures == "none" else 1)
    said = {"none": "takes no pictures", "forgotten": "served without memory", "remembered": ""}[pictures]
    assert said in report.skipped.get("picture", "")


def test_what_the_server_says_of_itself_decides_about_rows():
    report = Report(model="fake", seed=4)
    info = {"max_req_input_len": 1000, "internal_states": [{"avg_spec_accept_length": 2.5}]}
    with serve(FakeModel("good", info=info)) as url:
        suite = Suite(client=ChatClient(url=url), report=report, questions=english(report.seed))
        suite.accept_length()
        document(suite)
    assert report.value("accept_length") == 2.5
    assert "takes 1000" in report.skipped["document_stored"]
    assert report.value("document_fact") is None
