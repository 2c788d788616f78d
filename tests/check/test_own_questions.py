"""Questions of one's own: read, refused with a remedy, asked as the package's own are, and left out in part."""

import json
from dataclasses import asdict

import pytest

from tests.check.fake_server import FakeModel, serve
from v14.check import own
from v14.check.questions import NUM_FACTS, english
from v14.check.run import check_url
from v14.check.suite import NUM_SPARE
from v14.check.table import MEANINGS
from v14.errors import CheckError

ENGLISH = english(11)
TIMES = ("first_token_on", "first_token_off", "decode_on", "decode_off")


def quiet(name, total):
    return lambda: None


def fact_entries(facts):
    return [{"statement": fact.statement, "question": fact.question, "value": fact.value} for fact in facts]


def changed_entries(facts):
    return [
        {"statements": fact.statements, "question": fact.question, "values": (*fact.outdated, fact.value)}
        for fact in facts
    ]


def whole(**changes):
    """The package's own of a seed, as a file has them."""
    return {
        "facts": fact_entries(ENGLISH.facts),
        "spare_facts": fact_entries(ENGLISH.spare_facts),
        "unrelated": [{"question": question.text, "accepted": question.accepted} for question in ENGLISH.unrelated],
        "chats": ENGLISH.chats,
        "corrected": changed_entries([*ENGLISH.corrected_once, *ENGLISH.corrected_twice]),
        "two_step": [
            {"statements": fact.statements, "question": fact.question, "value": fact.value} for fact in ENGLISH.two_step
        ],
        "passages": ["A hill stands behind the lake.", "The path is narrow and wet."],
        **changes,
    }


def written(path, data):
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def rows_of(model, questions):
    with serve(model) as url:
        report = check_url(url, questions, seed=0, phase=quiet)
    return {row.name: row.to_json() for row in report.rows}, report


def test_a_file_asks_as_the_package_does(tmp_path):
    questions = own.load(written(tmp_path / "own.json", whole()), seed=0)
    assert [asdict(fact) | {"paraphrased": False} for fact in ENGLISH.facts] == [
        asdict(fact) for fact in questions.facts
    ]
    assert (questions.corrected_once, questions.corrected_twice) == (ENGLISH.corrected_once, ENGLISH.corrected_twice)
    assert questions.two_step == ENGLISH.two_step
    rows, report = rows_of(FakeModel("good"), questions)
    counted = {name: row for name, row in rows.items() if "right" in row}
    assert counted.keys() >= {"facts_after_chats", "unrelated", "corrected_twice", "two_step", "long_prompt"}
    rarely = {"facts_memory_off", "unrelated_recalling", "unrelated_recalling_after_chats"}
    assert {name: row["right"] for name, row in counted.items()} == {
        name: 0 if name in rarely else row["of"] for name, row in counted.items()
    }
    assert rows["facts"]["of"] == NUM_FACTS
    assert not [why for why in report.skipped.values() if "own.json" in why]
    assert report.to_json()["questions"] == "own.json"


def test_parts_that_are_left_out_are_not_checked_and_said(tmp_path):
    facts = whole()["facts"][:3]
    questions = own.load(written(tmp_path / "own.json", {"facts": facts}), seed=0)
    rows, report = rows_of(FakeModel("good"), questions)
    assert (rows["facts"]["right"], rows["facts"]["of"]) == (3, 3)
    assert set(rows) == {
        *("facts", "right_event_recalled", "facts_same_chat", "facts_memory_off", *TIMES),
        *("timed_recalling", "failed_requests"),
    }
    assert rows.keys() | report.skipped.keys() >= MEANINGS.keys()
    reasons = {
        "four_at_once": "own.json has no `spare_facts`",
        "document_fact": "own.json has no `spare_facts`",
        "prefix_cold": "own.json has no `passages`",
        "unrelated_memory_off": "own.json has no `unrelated`",
        "facts_after_chats": "own.json has no `chats`",
        "corrected_twice": "own.json has no `corrected`",
        "two_step_recalled": "own.json has no `two_step`",
    }
    assert {name: report.skipped[name] for name in reasons} == reasons


def test_a_picture_is_not_asked_about(tmp_path):
    questions = own.load(written(tmp_path / "own.json", {"facts": whole()["facts"][:1]}), seed=0)
    rows, report = rows_of(FakeModel("good", pictures="remembered"), questions)
    assert "picture" not in rows
    assert "is English" in report.skipped["picture"]


def test_every_second_fact_is_asked_in_other_words_where_it_has_them(tmp_path):
    facts = [
        {"statement": f"Boot {name} heißt {name}.", "question": f"Wie heißt Boot {number}?", "value": name}
        for number, name in enumerate(("Ada", "Eva", "Ute", "Ida"))
    ]
    for fact in facts[:2]:
        fact["reworded"] = "Welchen Namen hat es?"
    questions = own.load(written(tmp_path / "own.json", {"facts": facts}), seed=0)
    assert [fact.question for fact in questions.facts] == [
        *("Wie heißt Boot 0?", "Welchen Namen hat es?", "Wie heißt Boot 2?", "Wie heißt Boot 3?")
    ]
    assert [fact.paraphrased for fact in questions.facts] == [False, True, False, False]


def test_long_texts_have_their_length_whatever_the_language_and_the_fact_in_the_middle(tmp_path):
    for passages in (["Ein kurzer Satz.", "Noch einer."], ["山很高。", "水很冷。"]):
        questions = own.load(written(tmp_path / "own.json", whole(passages=passages)), seed=3)
        text = questions.long_text(5, "Das Boot heißt Ada.", 200)
        assert 1200 <= len(text.encode()) <= 1260
        assert 0.4 < text.index("Das Boot heißt Ada.") / len(text) < 0.6
        assert text == questions.long_text(5, "Das Boot heißt Ada.", 200) != questions.long_text(6, "", 200)


FACT = {"statement": "The boat is called Ada.", "question": "What is the boat called?", "value": "Ada"}
CHANGED = {
    "statements": ["My bank is Rako.", "My bank is now Wint."],
    "question": "Which bank do I have?",
    "values": ["Rako", "Wint"],
}
BOTH = {"statements": ["The server is called Ada.", "Ada is in bay 9."], "question": "Where is it?", "value": "bay 9"}

WRONG = {
    "no JSON": ("{", "JSON"),
    "not an object": ([1], "object"),
    "no facts": ({}, "facts: Field required"),
    "an unknown part": ({"facts": [FACT], "fact": []}, "fact: Extra inputs"),
    "an unknown key": ({"facts": [FACT | {"values": []}]}, "facts.0.values: Extra inputs"),
    "an empty question": ({"facts": [FACT | {"question": " "}]}, "facts.0.question: String should have at least 1"),
    "a value that nobody told": (
        {"facts": [FACT, FACT | {"value": "Eva"}]},
        "facts.1: 'The boat is called Ada.' does not tell the value 'Eva'",
    ),
    "a part of a word": ({"facts": [FACT | {"value": "Ad"}]}, "does not tell the value 'Ad' as whole words"),
    "a question with its answer": (
        {"facts": [FACT | {"reworded": "Is it Ada?"}]},
        "facts.0: the question 'Is it Ada?' has the answer in it",
    ),
    "a value of two facts": (
        {"facts": [FACT], "spare_facts": [FACT | {"value": "ada"}] * NUM_SPARE},
        "facts.0 and spare_facts.0 share the value 'ada'",
    ),
    "too few spare facts": ({"facts": [FACT], "spare_facts": [FACT]}, "there are 1 spare_facts; give at least 7"),
    "nothing accepted": (
        {"facts": [FACT], "unrelated": [{"question": "Hm?", "accepted": []}]},
        "unrelated.0.accepted: Tuple should have at least 1",
    ),
    "one statement": (
        {"facts": [FACT], "corrected": [CHANGED | {"statements": ["My bank is Rako."]}]},
        "corrected.0.statements: Tuple should have at least 2",
    ),
    "a value too few": (
        {"facts": [FACT], "corrected": [CHANGED | {"values": ["Wint"]}]},
        "corrected.0: 2 statements with 1 values; each has one",
    ),
    "values in another order": (
        {"facts": [FACT], "corrected": [CHANGED | {"values": ["Wint", "Rako"]}]},
        "corrected.0: 'My bank is Rako.' does not tell the value 'Wint'",
    ),
    "a last value that has an earlier one in it": (
        {
            "facts": [FACT],
            "corrected": [
                CHANGED | {"statements": ["My bank is Rako.", "It is New Rako."], "values": ["Rako", "New Rako"]}
            ],
        },
        "corrected.0: the last value 'New Rako' has an earlier one in it",
    ),
    "two steps in three": (
        {"facts": [FACT], "two_step": [BOTH | {"statements": [*BOTH["statements"], "Hm."]}]},
        "two_step.0.statements: Tuple should have at most 2",
    ),
    "two steps to nothing": (
        {"facts": [FACT], "two_step": [BOTH | {"value": "bay 8"}]},
        "two_step.0: 'The server is called Ada. Ada is in bay 9.' does not tell the value 'bay 8'",
    ),
}


@pytest.mark.parametrize(("data", "match"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named_with_file_and_remedy(tmp_path, data, match):
    path = written(tmp_path / "own.json", data)
    with pytest.raises(CheckError) as refusal:
        own.load(path, seed=0)
    assert str(path) in str(refusal.value)
    assert match in str(refusal.value)
    assert str(refusal.value).endswith(own.ADVICE)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckError, match=r"nowhere\.json cannot be read .*leave --questions out"):
        own.load(tmp_path / "nowhere.json", seed=0)
