"""A calibration set of one's own: read, refused with a remedy, and upgraded with."""

import json
from dataclasses import replace

import pytest

from tests.tiny import geometry_of, tiny_checkpoint, tokenizer_of, turns_of
from v14.errors import UpgradeError
from v14.events.cut import Cutter
from v14.upgrade import Silent, upgrade
from v14.upgrade.calibration import CalibrationSet, Chat, build, own
from v14.upgrade.measure import measure
from v14.upgrade.reading import Reader


def small(**changes):
    """The least that is enough: four kinds of facts, eight general questions in each half; as plain values."""
    whole = build(0, num_kinds=4)
    others = [question for question in whole.questions if question.fact is None and not question.stranger]
    questions = [question for question in whole.questions if question.fact is not None]
    for held_out in (False, True):
        questions += [question for question in others if question.held_out == held_out][: own.MIN_QUESTIONS]
    data = {
        "chats": [vars(chat) for chat in whole.chats if chat.fact is not None],
        "questions": [vars(question) for question in questions],
    }
    return {**data, **changes}


def written(path, data):
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_a_file_is_read_as_it_is(tmp_path):
    data = small()
    texts = own.load(written(tmp_path / "own.json", {**data, "null": "Hm."}))
    assert isinstance(texts, CalibrationSet)
    assert texts.null == "Hm."
    assert [vars(chat) for chat in texts.chats] == data["chats"]
    assert [vars(question) for question in texts.questions] == data["questions"]
    assert own.load(written(tmp_path / "own.json", data)).null == "N/A"


def with_chat(**changes):
    """The small set with one chat more."""
    data = small()
    return {**data, "chats": [*data["chats"], {"turns": [["user", "Good morning."]], **changes}]}


def with_question(**changes):
    """The small set with one question more."""
    data = small()
    return {**data, "questions": [*data["questions"], {"text": "And now?", "held_out": True, **changes}]}


def without(*, held_out, about_facts):
    """The small set without one question of a quarter, of which it has just enough, or without all of them."""
    data = small()
    quarter = [q for q in data["questions"] if (q["held_out"], q["fact"] is not None) == (held_out, about_facts)]
    left = own.MIN_QUESTIONS - 1
    return {**data, "questions": [q for q in data["questions"] if q not in quarter[left:]]}


TWICE = small()["chats"][0]["turns"]

WRONG = {
    "no JSON": ("{", "JSON"),
    "not an object": ([1], "object"),
    "no chats": ({key: value for key, value in small().items() if key != "chats"}, "chats: Field required"),
    "an unknown key": (small(nul="N/A"), "nul: Extra"),
    "an empty content-free prompt": (small(null="  "), "null: String should have at least 1"),
    "a chat without turns": (with_chat(turns=[]), "chats.12.turns: Tuple should have at least 1"),
    "a turn of blanks": (with_chat(turns=[["user", " "]]), "chats.12.turns.0.1: String should have at least 1"),
    "a role of another kind": (with_chat(turns=[["system", "Hi."]]), "chats.12.turns.0.0: Input should be 'user' or"),
    "a reply first": (with_chat(turns=[["assistant", "Hi."]]), "chats.12: turns are ['assistant']; they alternate"),
    "two user turns": (with_chat(turns=[["user", "Hi."]] * 2), "chats.12: turns are ['user', 'user']; they alternate"),
    "a fact below 0": (with_chat(fact=-1), "chats.12.fact: Input should be greater than or equal to 0"),
    "one statement for two facts": (with_chat(turns=TWICE, fact=99), "is said to state fact"),
    "a question without text": (with_question(text=""), "questions.40.text: String should have at least 1"),
    "a question of no half": (with_question(held_out=None), "questions.40.held_out: Input should be a valid boolean"),
    "a question for what nobody said": (with_question(fact=77), "question 'And now?' asks for fact 77, which no chat"),
    "too few facts": (without(held_out=False, about_facts=True), "held_out false, 7 ask for a fact and 8 for nothing"),
    "too few others": (without(held_out=True, about_facts=False), "held_out true, 12 ask for a fact and 7 for nothing"),
}


@pytest.mark.parametrize(("data", "match"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named_with_file_and_remedy(tmp_path, data, match):
    path = written(tmp_path / "own.json", data)
    with pytest.raises(UpgradeError) as refusal:
        own.load(path)
    assert str(path) in str(refusal.value)
    assert match in str(refusal.value)
    assert str(refusal.value).endswith(own.REMEDY)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UpgradeError, match=r"nowhere\.json cannot be read .*leave --calibration out"):
        own.load(tmp_path / "nowhere.json")


def test_an_upgrade_with_it(tmp_path):
    path = written(tmp_path / "own.json", small())
    out, report = tmp_path / "out", Silent()
    profile = upgrade(tiny_checkpoint("llama"), out, calibration=path, report=report)
    texts = own.load(path)
    assert profile.measured["num_facts"] == sum(question.fact is not None for question in texts.questions)
    assert profile.measured["num_unrelated"] == 2 * own.MIN_QUESTIONS
    again = Silent()
    upgrade(tiny_checkpoint("llama"), out, calibration=path, report=again)
    assert [f"remove {out} to calibrate with it" in line for line in again.lines] == [False, True]
    with pytest.raises(UpgradeError, match=r"own\.json"):
        upgrade(tiny_checkpoint("llama"), tmp_path / "other", calibration=written(path, "{}"), report=Silent())
    assert not (tmp_path / "other").exists()


def test_only_the_first_turn_states_a_fact():
    source = tiny_checkpoint("llama")
    geometry, tokenizer = geometry_of(source), tokenizer_of(source)
    turns = (("user", "The boat is blue."), ("assistant", "Okay."), ("user", "The sea is wide."))
    texts = replace(build(0, num_kinds=1), chats=(Chat(turns=turns, fact=0),))
    texts = replace(texts, questions=texts.questions[:1])
    cutter = Cutter(turns=turns_of(source))
    reader = Reader(source, geometry, 1)
    found = measure(reader, tokenizer, cutter, geometry, texts, num_layers=1, cue_tokens=128)
    assert [event.role for event in found.events] == ["user", "assistant", "user"]
    assert found.facts.tolist() == [0, -1, -1]
