"""What counts as right, as old, as obeying; F1; bounds and verdicts; MuSiQue's file; the exponent of a cost."""

import json
import sys

import pytest

from benchmarks.recall import cost, musique, scoring, study
from benchmarks.recall.baselines import Bm25
from benchmarks.recall.chats import Case, Chat
from benchmarks.recall.page import markdown
from benchmarks.recall.table import Row, judged, show

CASE = Case(row="corrected", chats=(), question="?", accepted=("teal Kavaro",), refused=("sand Wendo",))


def test_right_old_and_obeying():
    assert scoring.right(CASE, "It is a Teal Kavaro.")
    assert not scoring.right(CASE, "It is a teal Kavarona.")
    assert scoring.gives_old(CASE, "A sand Wendo.")
    assert not scoring.gives_old(CASE, "No longer a sand Wendo but a teal Kavaro.")
    assert scoring.obeys(CASE, "sand Wendo! And a teal Kavaro.")


@pytest.mark.parametrize(
    ("reply", "accepted", "wanted"),
    [
        ("The Exeter College.", ["Exeter College"], 1.0),
        ("Exeter", ["Exeter College"], 2 / 3),
        ("in Oxford", ["Exeter College"], 0.0),
        ("a college, Exeter College", ["nothing", "exeter college"], 0.8),
        ("", ["Exeter"], 0.0),
    ],
)
def test_f1(reply, accepted, wanted):
    assert scoring.f1(reply, accepted) == pytest.approx(wanted)


def _row(system, value, row="answers: two-step", model="m"):
    return Row(model=model, row=row, system=system, value=value, of=10)


def test_bounds_follow_from_the_other_systems_of_the_same_model():
    rows = [
        _row("same chat", 0.8),
        _row("memory", 0.72),
        _row("same chat", 1.0, model="n"),
        _row("memory", 0.8, model="n"),
    ]
    found = judged(rows)
    assert [row.holds for row in found] == [None, True, None, False]
    assert found[1].bound == pytest.approx(0.72)
    assert judged([_row("memory", 0.0), _row("same chat", 0.0)])[0].holds is None
    obeying = [_row("same chat", 0.3, "obeys: instruction"), _row("memory", 0.4, "obeys: instruction")]
    assert judged(obeying)[1].holds is False
    evidence = [
        _row(name, value, "evidence in the top 5: paraphrase") for name, value in (("memory", 0.96), ("MiniLM", 0.97))
    ]
    assert judged(evidence)[0].holds is False
    absent = judged([_row("memory", 0.05, "recalls anything: absent")])
    assert absent[0].holds is True
    real = [
        _row(name, value, "MuSiQue: answer in the top 5")
        for name, value in (("memory", 0.6), ("BM25", 0.5), ("MiniLM", 0.4))
    ]
    assert judged(real)[0].bound == pytest.approx(0.6)


def test_the_table_shows_every_value_and_verdict():
    text = show(judged([_row("same chat", 0.8), _row("memory", 0.5), _row("voters", 0.25, "evidence")]))
    assert "same chat 0.800  memory 0.500   [FAILS: 0.720]" in text
    assert "evidence" in text


def test_musique_keeps_the_paragraphs_of_all_and_the_questions_with_evidence(tmp_path):
    def entry(number, answers, texts):
        return {"question": f"Q{number}?", "answers": answers, "ctxs": [{"title": "", "text": text} for text in texts]}

    file = tmp_path / "set.json"
    file.write_text(
        json.dumps(
            [
                entry(0, ["Exeter"], ["nothing", "at exeter , then"]),
                entry(1, ["Rome"], ["romeo", "nothing"]),
                entry(2, ["Bath"], ["in bath"]),
            ]
        )
    )
    data = musique.load(file, 5)
    assert [case.question[:3] for case in data.cases] == ["Q0?", "Q2?"]
    assert [case.chats[0].turns[0][1] for case in data.cases] == ["at exeter , then", "in bath"]
    assert len(data.chats) == 4
    assert len({chat.said_at for chat in data.chats}) == 4
    assert len(musique.load(file, 1).cases) == 1


def test_questions_that_are_reported_cannot_be_studied(tmp_path, monkeypatch, capsys):
    assert len(musique.REPORTED) == 150
    file = tmp_path / "set.json"
    file.write_text(json.dumps([{"question": "Who?", "answers": ["Ada"], "ctxs": []}, {"question": "What?"}]))
    assert musique.num_reported(file) == 0
    monkeypatch.setattr(musique, "REPORTED", frozenset({musique.digest("Who?")}))
    monkeypatch.setattr(sys, "argv", ["study", "nowhere", "--documents", str(file), "--out", str(tmp_path / "x.npz")])
    with pytest.raises(SystemExit):
        study.main()
    assert "1 questions of" in capsys.readouterr().err


def test_bm25_finds_the_rare_word():
    ranker = Bm25(["the boat is called Corvara", "the boat is called Selinda", "a kettle in Birkbeck"])
    assert ranker.rank("Who owns Selinda?", 2)[0] == 1
    assert len(ranker.rank("boat", 9)) == 3


def test_the_exponent_of_a_power_is_found_and_plotted(tmp_path):
    growth = cost.Growth(model="m", sizes=(100, 1_000, 10_000), seconds=(0.01, 0.1, 1.0))
    assert growth.exponent == pytest.approx(1.0)
    assert [row.value for row in cost.rows(growth)] == [0.01, 0.1, 1.0, pytest.approx(1.0)]
    cost.plot([growth], tmp_path / "a.svg")
    cost.plot([growth], tmp_path / "b.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_a_chat_without_a_place_has_no_time():
    assert Chat(turns=(("user", "hello"),)).said_at == 0.0


def test_a_page_has_a_column_for_every_system():
    rows = judged([_row("same chat", 0.8), _row("memory", 0.5), _row("BM25", 0.25, "evidence")])
    lines = markdown(rows).splitlines()
    assert lines[2] == "| row | of | same chat | memory | BM25 | bound |"
    assert lines[4] == "| answers: two-step | 10 | 0.8 | 0.5 |  | memory 0.72: **fails** |"
    assert lines[5] == "| evidence | 10 |  |  | 0.25 |  |"
