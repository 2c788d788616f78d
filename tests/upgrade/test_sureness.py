"""How sure a plan has to be, fitted to invented evidence: look-alikes keep out, facts stay in, chains are linked."""

from dataclasses import replace

import pytest

from v14.recall.doubt import LATE
from v14.recall.lexicon import Lexicon
from v14.recall.weighing import Weighed
from v14.recall.wording import Wording
from v14.types import Event
from v14.upgrade.calibration import Question
from v14.upgrade.sureness import FALSE_RECALLS, Evidence, fit

NUM = 60
KIND = (10, 11)


def event(*body):
    return Event(namespace="n", chat_id="c", role="user", said_at=float(body[0]), token_ids=body)


def told(number):
    """Somebody's name of three tokens, of which the middle one is that of others, too."""
    return (1000 + number, 2000 + number % 7, 3000 + number, *KIND)


STATEMENTS = [event(*told(number), 5000 + number) for number in range(NUM)]
SECOND = event(5000, 30, 31)


def counted(found):
    for each in (*STATEMENTS, SECOND):
        found.add(each.id, each.body)
    return found


LEXICON = counted(Lexicon())


def evidence(asked, votes, *, needed=(), stranger=False, late=None):
    """`votes`, and `late`, by the statements' numbers."""
    weighed = [Weighed(event=STATEMENTS[number], vote=vote, asked=0.0, strength=vote) for number, vote in votes.items()]
    question = Question(text="", fact=0 if needed else None, held_out=True, stranger=stranger)
    return Evidence(
        question=question,
        weighed=tuple(sorted(weighed, key=lambda each: -each.vote)),
        needed=tuple(frozenset([each.id]) for each in needed),
        wording=Wording([LEXICON], asked),
        late={STATEMENTS[number].id: parts for number, parts in (late or {}).items()},
    )


def facts():
    return [
        evidence(told(n), {n: 2.0 + n % 3 / 10, (n + 7) % NUM: 1.8, (n + 1) % NUM: 1.0}, needed=[STATEMENTS[n]])
        for n in range(NUM)
    ]


def strangers():
    """With votes as high as those of facts; of the name only the common part was ever said."""
    asked = [(7000 + n, 2000 + n % 7, 8000 + n, *KIND) for n in range(NUM)]
    return [evidence(a, {n % 7: 2.1, n % 7 + 7: 2.0, 50: 1.0}, stranger=True) for n, a in enumerate(asked)]


def unrelated():
    return [evidence((90, 91, 92), {n: 0.7, n + 1: 0.7}) for n in range(NUM // 2)]


@pytest.fixture(scope="module")
def found():
    return fit([*facts(), *strangers(), *unrelated()])


def test_facts_are_in_plans_and_look_alikes_are_not(found):
    assert found.right_in_plan > 0.95
    assert found.wrong_in_plan < 0.1
    assert found.strangers_recalling <= max(FALSE_RECALLS)
    assert found.doubt.words + found.doubt.phrase > 0, "words tell them apart, votes do not"


def test_the_end_of_a_question_counts_only_where_it_finds_more(found):
    """Of these strangers every word was told of somebody, and their votes are those of facts."""
    assert found.doubt.late == ()
    assert found.doubt.open == 0

    def asked(n, wanted):
        late = {n: (0.8 + n % 5 / 50 if wanted else 0.1 + n % 5 / 50, 0.2), (n + 7) % NUM: (0.1, 0.2)}
        votes = {n: 2.0 + n % 3 / 10, (n + 7) % NUM: 1.8}
        return evidence(told(n), votes, needed=[STATEMENTS[n]] if wanted else (), stranger=not wanted, late=late)

    alike = fit([asked(n, wanted) for n in range(NUM) for wanted in (True, False)])
    assert alike.doubt.late[0] > 0
    assert len(alike.doubt.late) == LATE
    assert alike.right_in_plan > 0.95
    assert alike.strangers_recalling <= max(FALSE_RECALLS)


def test_the_rate_of_false_recalls_sets_the_bar(found):
    """Strangers that cannot be told from facts are paid for with facts."""
    same = [
        replace(each, question=replace(each.question, fact=None, stranger=True), needed=()) for each in facts()[:20]
    ]
    strict = fit([*facts(), *strangers(), *same, *unrelated()])
    assert strict.right_in_plan < found.right_in_plan
    assert strict.strangers_recalling <= max(FALSE_RECALLS)


def test_without_strangers_unrelated_questions_take_their_place():
    alone = fit([*facts(), *unrelated()])
    assert alone.right_in_plan > 0.95
    assert alone.strangers_recalling <= max(FALSE_RECALLS)


def test_links_are_as_strong_as_those_that_lead_on(found):
    assert found.chains_linked == 0.0, "no chain was asked about"
    chain = evidence((*told(0), 31), {0: 2.0, 7: 1.5}, needed=[STATEMENTS[0], SECOND])
    linked = fit([*facts(), *strangers(), *unrelated(), chain])
    assert linked.chains_linked == 1.0
    assert 0 < linked.linked < 5
