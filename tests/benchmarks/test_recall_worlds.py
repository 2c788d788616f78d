"""The generated chats of the recall benchmark: derivable, without leaks, the same for a seed, nobody else's names."""

import random
import re
from itertools import chain, islice, pairwise

import pytest

from benchmarks.recall.chats import weave
from benchmarks.recall.english import documents, names, talk
from benchmarks.recall.english.kinds import KINDS
from benchmarks.recall.english.world import English
from benchmarks.recall.hybrid_world import HybridWorld
from v14.check.facts import SUBJECTS
from v14.check.pools import WORDS
from v14.check.scoring import contains
from v14.upgrade import calibration
from v14.upgrade.calibration import chats as calibration_chats
from v14.upgrade.calibration import kinds as calibration_kinds

WORLDS = (English, HybridWorld)
ASKED_FOR_ALL = ("count", "absent", "general")


def cases_of(world, num=6):
    return [case for row in world.rows for case in world.cases(row, num)]


def text_of(chat):
    return " ".join(text for _, text in chat.turns)


@pytest.mark.parametrize("world", WORLDS)
def test_answers_follow_from_the_chats_and_not_from_the_question(world):
    for case in cases_of(world(1), 12):
        told = [text_of(chat).casefold() for chat in case.chats]
        assert bool(case.needed) == bool(case.accepted) == (case.row not in ("absent", "general"))
        for statement in case.needed:
            assert any(statement.casefold() in text for text in told), case
        if case.row in ASKED_FOR_ALL:
            continue
        assert any(contains(statement, case.accepted) for statement in case.needed), case
        assert not contains(case.question, case.accepted), case
        assert not set(case.accepted) & set(case.refused), case
        assert all(any(value in text for text in map(text_of, case.chats)) for value in case.refused), case


def test_the_present_value_was_said_last_and_the_old_one_before():
    for world in (English(4), HybridWorld(4)):
        for row, place in (("corrected", -1), ("corrected twice", -1), ("old value", 0)):
            for case in world.cases(row, 8):
                saying = [text_of(chat) for chat in case.chats if contains(text_of(chat), case.accepted)]
                assert saying == [text_of(case.chats[place])], case
                assert len(case.chats) == len(case.refused) + 1


def test_temporal_questions_have_their_answer_where_they_say():
    for case in English(5).cases("temporal", 40):
        order = [value for chat in case.chats for value in (*case.accepted, *case.refused) if value in text_of(chat)]
        place = order.index(case.accepted[0])
        if " first " in case.question:
            assert place == 0
        elif "latest" in case.question:
            assert place == 2
        else:
            assert place == 1
            named = next(value for value in order if value in case.question)
            assert order.index(named) == (0 if "after" in case.question else 2)


def test_counts_are_of_separate_chats():
    for case in English(6).cases("count", 20):
        assert case.accepted[1] == str(len(case.chats)) == str(len(set(case.needed)))


@pytest.mark.parametrize("world", WORLDS)
def test_nothing_is_told_anywhere_else(world):
    made = world(2)
    cases = cases_of(made, 8)
    others = [text_of(chat).casefold() for chat in islice(made.distractors(), 300)]
    for case in cases:
        own = {text_of(chat) for chat in case.chats}
        foreign = {text_of(chat) for other in cases for chat in other.chats} - own
        for statement in case.needed:
            assert not any(statement.casefold() in text for text in others)
            assert not any(statement in text for text in foreign)
    questions = [case.question for case in cases if case.row != "general"]
    assert len(set(questions)) == len(questions)
    assert not any(question.casefold() in text for question in questions for text in others)


@pytest.mark.parametrize("world", WORLDS)
def test_a_seed_gives_the_same_and_another_does_not(world):
    def all_of(seed):
        made = world(seed)
        return cases_of(made, 3), list(islice(made.distractors(), 40))

    assert all_of(3) == all_of(3)
    assert all_of(3)[1] != all_of(4)[1]


@pytest.mark.parametrize("world", WORLDS)
def test_weaving_keeps_the_order_of_a_case_and_gives_every_chat_its_time(world):
    made = world(0)
    cases = cases_of(made, 3)
    woven = weave(random.Random(0), cases, list(islice(made.distractors(), 30)))
    times = [chat.said_at for chat in woven.chats]
    assert all(early < late for early, late in pairwise(times))
    told = {chat.said_at: chat for chat in woven.chats}
    for case, before in zip(woven.cases, cases, strict=True):
        assert [chat.turns for chat in case.chats] == [chat.turns for chat in before.chats]
        assert all(told[chat.said_at] is chat for chat in case.chats)
        assert all(early.said_at < late.said_at for early, late in pairwise(case.chats))
    shared = {id(chats) for chats in (case.chats for case in woven.cases if case.group >= 0)}
    assert shared
    assert len(woven.chats) == 30 + len({chat.said_at for case in woven.cases for chat in case.chats})


def test_distractors_are_of_many_sorts():
    some = list(islice(English(0).distractors(), 400))
    in_vain = sum(chat.turns[1][1] in talk.DENIALS for chat in some)
    told = sum(chat.turns[1][1] in talk.ACKNOWLEDGEMENTS for chat in some)
    assert in_vain > 20
    assert told > 120
    assert len(some) - told - in_vain > 100
    assert len({text_of(chat) for chat in some}) > 390


def test_names_and_values_are_nobody_elses():
    foreign = {value.casefold() for value in calibration.values()}
    foreign |= {name.casefold() for name in chain(calibration_kinds.GIVEN, calibration_kinds.FAMILY)}
    foreign |= {town.casefold() for town in calibration_kinds.TOWNS}
    foreign |= {word.casefold() for words in WORDS.values() for word in words}
    draw = random.Random(0)
    own = {value(draw).casefold() for value in names.VALUES.values() for _ in range(3000)}
    own |= {make(draw).casefold() for make in (names.given, names.family, names.town, names.firm) for _ in range(3000)}
    assert not own & foreign
    parts = {part for value in own for part in value.split()}
    invented = {name.casefold() for name in (*calibration_kinds.GIVEN, *calibration_kinds.FAMILY)}
    assert not parts & (invented | {word for kind in ("surname", "first_name", "city") for word in WORDS[kind]})


def _bare(text):
    return re.sub(r"\{\w\}", "", text).casefold().strip(" .?")


def test_wording_is_nobody_elses():
    foreign = {_bare(text) for kind in calibration_kinds.KINDS for text in (*kind.statements, kind.direct)}
    foreign |= {_bare(kind.paraphrase) for kind in calibration_kinds.KINDS}
    foreign |= {_bare(text) for subject in SUBJECTS for text in (subject.statement, subject.direct, subject.reworded)}
    own = {_bare(text) for kind in KINDS for text in (*kind.says, kind.asks, kind.reworded)}
    assert not own & foreign
    assert not set(talk.ACKNOWLEDGEMENTS) & set(calibration_chats.ACKNOWLEDGEMENTS)
    assert not set(talk.DENIALS) & set(calibration_chats.DENIALS)
    general = {case.question for case in English(0).cases("general", 20)}
    assert not general & set(calibration_chats.QUESTIONS)


def test_documents_are_as_long_as_asked_and_lines_lie_apart():
    lines = [f"Line {number} is here." for number in range(10)]
    text = documents.document(random.Random(0), lines, 1_800)
    assert 0.9 < len(text.split()) * 4 / 3 / 1_800 < 1.15
    places = [text.index(line) / len(text) for line in lines]
    assert places == sorted(places)
    assert places[0] > 0.02
    assert places[-1] < 0.98
    assert all(0.05 < late - early < 0.15 for early, late in pairwise(places))


def test_an_ordering_document_holds_its_line_and_its_order():
    for seed in range(20):
        text, marker = documents.ordering(random.Random(seed), "The line stands.")
        assert text.count(marker) == 1
        assert "The line stands." in text
