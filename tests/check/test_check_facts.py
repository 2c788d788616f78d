"""Facts from a seed: different, answerable only by whoever was told, and scored by whole words."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from v14.check.client import Account, Recalled
from v14.check.facts import SUBJECTS, Fact, generate
from v14.check.pools import POOLS, WORDS
from v14.check.questions import NUM_FACTS
from v14.check.related import chains, corrected
from v14.check.scoring import contains, recalled
from v14.check.unrelated import chats, long_text, questions

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_facts_differ_and_give_nothing_away(seed):
    facts = generate(seed, len(SUBJECTS))
    assert len({fact.value.lower() for fact in facts}) == len(facts)
    assert len({fact.statement for fact in facts}) == len({fact.question for fact in facts}) == len(facts)
    for fact in facts:
        assert contains(fact.statement, [fact.value])
        assert not any(contains(other.question, [fact.value]) for other in facts)
        assert sum(contains(other.statement, [fact.value]) for other in facts) == 1, fact
        assert not set("{}|") & set(fact.statement + fact.question)
    assert sum(fact.paraphrased for fact in facts[:NUM_FACTS]) == NUM_FACTS // 2


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_related_facts_take_every_statement_and_share_no_value(seed):
    taken = [fact.value for fact in generate(seed, len(SUBJECTS))]
    once, twice = corrected(seed, taken)
    tied = chains(seed, [*taken, *(v for fact in (*once, *twice) for v in (fact.value, *fact.outdated))])
    assert [len(fact.statements) for fact in (*once, *twice, *tied)] == [2] * 6 + [3] * 6 + [2] * 6
    values = [fact.value for fact in (*once, *twice, *tied)] + [v for fact in (*once, *twice) for v in fact.outdated]
    assert len({value.lower() for value in (*values, *taken)}) == len(values) + len(taken)
    for fact in (*once, *twice, *tied):
        assert [contains(text, [fact.value]) for text in fact.statements] == [False] * (len(fact.statements) - 1) + [
            True
        ]
        assert not contains(fact.question, [fact.value, *fact.outdated])
        assert not set("{}|") & set("".join(fact.statements) + fact.question)
    assert corrected(seed, taken) == (once, twice)


@given(SEEDS, st.integers(1, len(SUBJECTS)))
@settings(max_examples=20, deadline=None)
def test_same_seed_same_facts_and_longer_lists_begin_with_shorter_ones(seed, num_facts):
    assert generate(seed, num_facts) == generate(seed, len(SUBJECTS))[:num_facts]


def test_seeds_differ_and_subjects_run_out_loudly():
    assert generate(0, NUM_FACTS) != generate(1, NUM_FACTS)
    with pytest.raises(ValueError, match="subjects"):
        generate(0, len(SUBJECTS) + 1)
    assert len(SUBJECTS) >= NUM_FACTS + 12


def test_pools_are_large_and_share_nothing():
    assert all(len(words) >= 50 for words in WORDS.values())
    everything = [word.lower() for words in WORDS.values() for word in words]
    assert len(set(everything)) == len(everything)
    assert {subject.kind for subject in SUBJECTS} <= set(POOLS)


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_unrelated_texts_hold_no_value_of_a_fact(seed):
    values = [fact.value for fact in generate(seed, len(SUBJECTS))]
    texts = [question.text for question in questions(seed)] + chats(seed) + [long_text(seed, "")]
    assert not any(contains(text, values) for text in texts)
    assert not any(contains(question.text, question.accepted) for question in questions(seed))
    assert (len(questions(seed)), len(chats(seed))) == (10, 40)
    assert len(set(chats(seed))) == 40


def test_long_text_has_the_fact_in_its_middle():
    text = long_text(3, "The middle is here.")
    assert 0.45 < text.index("The middle is here.") / len(text) < 0.55
    assert 1700 < len(text.split()) < 1800


@pytest.mark.parametrize(
    ("answer", "value", "right"),
    [
        ("It is called GANYMEDE!", "Ganymede", True),
        ("The code is 4,417.", "4417", True),
        ("The code is 44170.", "4417", False),
        ("It costs 48,779 euros.", "48,779", True),
        ("It costs 48779 euros.", "48,779", True),
        ("这艘船叫艾达号。", "艾达", True),
        ("その船はアダです", "アダ", True),
        ("Die Größe", "Gr", False),
        ("Bay c12", "C12", True),
        ("Bergenia grows here.", "Bergen", False),
        ("At 6:45 pm", "6:45", True),
        ("At 16:45", "6:45", False),
        ("At 6:45pm", "6:45", True),
        ("zipper-quarry", "zipper-quarry", True),
        ("", "Paris", False),
    ],
)
def test_contains(answer, value, right):
    assert contains(answer, [value]) is right


@given(st.text(string.ascii_letters, min_size=1, max_size=8), st.text(" .,!?", min_size=1, max_size=3))
def test_a_value_between_separators_is_found(value, separator):
    assert contains(f"{separator}{value}{separator}", ["unlikely", value.swapcase()])


def test_the_right_event_is_what_the_user_said():
    fact = Fact(
        statement="My boat is called Quasar.", question="What is my boat called?", value="Quasar", paraphrased=False
    )

    def account(role, text):
        return Account(recalled=(Recalled(id="sha256:0", role=role, vote=1.0, text=text),))

    assert recalled(account("user", "<|im_start|>user\nMy boat is\ncalled Quasar.<|im_end|>"), fact)
    assert not recalled(account("assistant", "My boat is called Quasar."), fact)
    assert not recalled(account("user", "My boat is called Comet."), fact)
    assert not recalled(account("user", "What is my boat called?"), fact)
    assert not recalled(Account(), fact)
    assert not recalled(None, fact)
