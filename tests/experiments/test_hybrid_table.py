"""The table of the small hybrids: its cases, its calibration set, and a few answers of the trained models."""

import json

import pytest

from experiments.tiny_hybrid.calibration import calibration_set
from experiments.tiny_hybrid.check_questions import check_questions
from experiments.tiny_hybrid.names import side
from experiments.tiny_hybrid.reader import RANKS, Reader
from experiments.tiny_hybrid.table import MODELS, answers, bytes_per_event, show
from experiments.tiny_hybrid.telling import NUM_OTHERS, ROWS, case
from tests.tiny import v14_of
from v14.check import own as check_file
from v14.upgrade.calibration import own

AT_ONCE = {"three at once": 3, "ten at once": 10}


@pytest.mark.parametrize("row", ROWS)
def test_cases_hold_what_is_asked(row):
    for number in range(20):
        told = case(1, row, number)
        assert told == case(1, row, number)
        assert told.question.value in " ".join(told.statements)
        assert len(told.others) == NUM_OTHERS
        assert not set(told.others) & set(told.statements)
        if row in AT_ONCE:
            assert len(told.statements) == AT_ONCE[row]
    with pytest.raises(ValueError, match="no row"):
        case(1, "riddle", 0)


def test_values_asked_for_were_never_trained_on():
    # Of a name in several words ("Port Gem", "Gem Ltd") the new ones are held out.
    for row in ROWS:
        for value in (case(2, row, number).question.value for number in range(100)):
            assert "eval" in {side(word) for word in (value, *value.split())}, value


def test_the_calibration_set_is_one_that_upgrade_reads(tmp_path):
    file = tmp_path / "set.json"
    file.write_text(json.dumps(calibration_set(0)))
    found = own.load(file)
    assert {question.held_out for question in found.questions} == {True, False}
    assert calibration_set(0) == calibration_set(0) != calibration_set(1)


def test_the_questions_are_ones_that_check_reads_and_of_the_held_out_side(tmp_path):
    file = tmp_path / "questions.json"
    file.write_text(json.dumps(check_questions(11)))
    questions = check_file.load(file, 0)
    assert (len(questions.facts), len(questions.unrelated), len(questions.chats)) == (30, 10, 40)
    assert [len(part) for part in (questions.corrected_once, questions.corrected_twice, questions.two_step)] == [6] * 3
    names = [fact.value for fact in questions.facts if fact.value.isalpha() and fact.value[0].isupper()]
    assert names
    assert {side(name) for name in names} == {"eval"}
    assert check_questions(11) == check_questions(11) != check_questions(12)


@pytest.mark.parametrize("checkpoint", MODELS, ids=lambda path: path.name)
def test_trained_models_answer_from_what_was_told(checkpoint, tmp_path):
    reader = Reader(v14_of(checkpoint, tmp_path / "v14"), tmp_path / "home")
    told = reader.tell(case(3, "three at once", 0))
    assert len(told.events) == 3
    right = dict(answers(reader, told))
    assert right["kv", "same chat", 0, "given"]
    assert right["reread", "kv", 0, "given"]
    sizes = [bytes_per_event(reader, told, ("kv", "both", rank, "given")) for rank in (0, *RANKS)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    reader.memory.close()


def test_the_table_has_a_line_for_each_way():
    common = {"model": "m", "reinstate": "kv", "recall": "given", "of": 4, "bytes_per_event": 8}
    rows = [
        common | {"question": question, "parts": parts, "rank": rank, "right": 3}
        for question in ROWS
        for parts, rank in (("same chat", 0), ("kv", 0), ("both", "full"))
    ]
    text = show(rows)
    assert [line.split("  ")[0] for line in text.splitlines()[3:]] == ["same chat", "kv, kv", "kv, both full"]
    assert text.count("0.750") == 3 * len(ROWS)
