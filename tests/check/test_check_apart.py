"""The check and the calibration of the upgrade share nothing: neither facts nor names nor questions."""

import pytest

from v14.check.data import lines
from v14.check.facts import SUBJECTS, generate
from v14.check.pools import WORDS
from v14.check.scoring import contains
from v14.upgrade.calibration import build, values

SETS = [build(seed) for seed in range(5)]


def test_no_value_of_the_calibration_is_a_value_of_the_check():
    calibrated = {value.lower() for value in values()}
    checked = {word.lower() for words in WORDS.values() for word in words}
    drawn = {fact.value.lower() for seed in range(200) for fact in generate(seed, len(SUBJECTS))}
    # Plain numbers may meet: what they are the numbers of differs, as the next test shows.
    assert not {value for value in checked | drawn if not value.isdigit()} & calibrated
    named = [word for words in WORDS.values() for word in words if any(contains(value, [word]) for value in calibrated)]
    assert not named


@pytest.mark.parametrize("number", range(len(SETS)))
def test_no_text_of_the_calibration_is_a_text_of_the_check(number):
    texts = {question.text.lower() for question in SETS[number].questions}
    texts |= {text.lower() for chat in SETS[number].chats for _, text in chat.turns}
    asked = [line.split(" | ")[0] for line in lines("questions")] + lines("chats")
    facts = [
        text for seed in range(50) for fact in generate(seed, len(SUBJECTS)) for text in (fact.statement, fact.question)
    ]
    assert not texts & {text.lower() for text in asked + facts}
