"""The calibration set keeps its own promises."""

from v14.upgrade.calibration import build, values
from v14.upgrade.calibration.kinds import KINDS


def test_the_same_seed_gives_the_same_set_and_another_a_different_one():
    assert build(3) == build(3)
    assert build(3) != build(4)


def test_every_question_about_a_fact_has_one_chat_that_states_it():
    texts = build(0)
    stated = [chat.fact for chat in texts.chats if chat.fact is not None]
    asked = [question.fact for question in texts.questions if question.fact is not None]
    assert sorted(stated) == sorted(set(asked))
    for question in texts.questions:
        assert question.text.endswith(("?", "."))
        assert "{" not in question.text


def test_no_kind_of_fact_is_in_both_halves():
    texts = build(0)
    by_fact = {question.fact: question.held_out for question in texts.questions if question.fact is not None}
    statements = {chat.fact: chat.turns[0][1] for chat in texts.chats if chat.fact is not None}
    for kind in KINDS:
        told = [fact for fact, text in statements.items() if any(v.lower() in text.lower() for v in kind.values)]
        own = [fact for fact in told if any(s in statements[fact] for s in kind.subjects if s) or not kind.subjects[0]]
        assert own
    halves = list(by_fact.values())
    assert 0.4 < sum(halves) / len(halves) < 0.6
    unrelated = [question.held_out for question in texts.questions if question.fact is None]
    assert sum(unrelated) * 2 == len(unrelated)


def test_values_are_complete():
    told = {value for kind in KINDS for value in kind.values}
    assert values() == told
    for kind in KINDS:
        assert len(set(kind.values)) == len(kind.values) >= min(2, len(kind.subjects))
        assert len(set(kind.subjects)) == len(kind.subjects)
