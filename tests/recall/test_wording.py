"""What events have of a question's words: names whole, rare words before common ones, short texts before long ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from v14.events.words import BEGINS, INSIDE, NO_WORD, Vocabulary
from v14.recall.lexicon import LONG, Lexicon
from v14.recall.wording import RAREST, Likeness, Wording

TEMPLATE = (1, 2)
PIECES = b"|user|.|my|bel|kel|ava|cousin|friend|went|to|school|schools|Bel|car"
VOCABULARY = Vocabulary(
    kinds=bytes([NO_WORD, BEGINS, NO_WORD, BEGINS, BEGINS, BEGINS, INSIDE, *[BEGINS] * 8]),
    pieces=tuple(PIECES.lower().split(b"|")),
)
MY, BEL, KEL, AVA, COUSIN, FRIEND, WENT, TO, SCHOOL, SCHOOLS = range(3, 13)
CAPITAL_BEL = 13


def lexicon_of(vocabulary=None, **bodies):
    lexicon = Lexicon(vocabulary)
    for event_id, body in bodies.items():
        lexicon.add(event_id, (*TEMPLATE, *body))
    return lexicon


def test_a_word_is_all_of_its_pieces_however_it_is_written():
    words = VOCABULARY.words((BEL, AVA, SCHOOLS, 0, AVA, CAPITAL_BEL, AVA, 99))
    assert [(word.text, word.num_tokens) for word in words] == [
        (b"belava", 2),
        (b"school", 1),
        (b"ava", 1),
        (b"belava", 2),
        (b"#99", 1),
    ]


def test_a_look_alike_misses_a_name_that_the_right_event_has():
    """Half a name in pieces, and the name without whose it is."""
    others = {f"other{n}": (MY, FRIEND, WENT, TO, 20 + n) for n in range(8)}
    lexicon = lexicon_of(
        VOCABULARY,
        right=(BEL, AVA, MY, COUSIN, BEL, AVA, WENT, 30),
        half=(MY, COUSIN, KEL, AVA, WENT, TO, SCHOOL, 31),
        another=(MY, FRIEND, BEL, AVA, 32),
        **others,
    )
    wording = Wording([lexicon], (*TEMPLATE, MY, COUSIN, BEL, AVA, SCHOOL))
    right, half, another = map(wording.likeness, ("right", "half", "another"))
    assert half.names == 0.0 < half.missing
    assert right.missing == another.missing == 0.0
    assert right.phrase > another.phrase
    assert set(wording.named(9)) == {"right", "half", "another"}
    assert wording.likeness("nobody") == Likeness(names=0.0, words=0.0, missing=half.missing, phrase=0.0, open=RAREST)


def test_a_word_says_less_in_a_long_text_and_more_said_twice():
    filler = [1000 + n for n in range(LONG)]
    lexicon = lexicon_of(once=(50, 51), twice=(50, 50), long=(50, *filler), a=(60,), b=(61,), c=(62,))
    wording = Wording([lexicon], (50,))
    assert 2 * wording.asked("once") > wording.asked("twice") > wording.asked("once") > wording.asked("long") > 0


def test_an_event_leads_on_by_what_is_rare_and_not_asked_for():
    """The server (20) is called 40; 40 is in rack 30; others are called something, and something is in their racks."""
    others = {f"other{n}": (10, 11, 50 + n) for n in range(8)}
    lexicon = lexicon_of(called=(20, 10, 40), rack=(40, 11, 30), server=(20, 12, 60), **others)
    wording = Wording([lexicon], (*TEMPLATE, 20, 11))
    (rack,) = wording.led_to("called").items()
    assert rack == ("rack", (pytest.approx(wording.led_to("rack")["called"][0]), pytest.approx(wording.rarity(b"#11"))))
    assert Wording([lexicon], (*TEMPLATE, 11)).led_to("called").keys() == {"rack", "server"}


def test_statements_about_one_thing_are_the_same_and_about_another_of_its_kind_are_not():
    """10, 11: what is asked of things of this kind; 20, 21: the things; 30 and on: values."""
    others = {f"other{n}": (10, 11, 22 + n, 33 + n) for n in range(4)}
    lexicon = lexicon_of(old=(10, 11, 20, 30), new=(50, 10, 11, 20, 31), sibling=(10, 11, 21, 32), **others)
    assert Wording([lexicon], (70,)).sameness("old", "new") == 0.0, "nothing of it was asked"
    asked = Wording([lexicon], (*TEMPLATE, 10, 11, 20))
    assert asked.sameness("old", "new") > 0.95
    assert asked.sameness("old", "sibling") < 0.2
    assert Wording([lexicon_of(a=(10,), b=(10, 11))], (*TEMPLATE, 10)).sameness("a", "b") == 1.0


def test_of_two_events_nothing_is_rare():
    wording = Wording([lexicon_of(a=(10,), b=(11,))], (10,))
    assert not wording.tells
    assert wording.rarity(b"#10") == wording.asked("a") == 0.0
    assert wording.named(5) == []
    assert not Wording((), ()).tells


def test_spaces_are_counted_together():
    wording = Wording([lexicon_of(a=(10,)), lexicon_of(b=(10,), c=(12,), d=(13,))], ())
    assert wording.rarity(b"#10") == pytest.approx(1.0)
    assert wording.led_to("a").keys() == {"b"}


@settings(max_examples=200, deadline=None)
@given(
    bodies=st.dictionaries(st.text(max_size=2), st.lists(st.integers(0, 9), max_size=6), max_size=8),
    gone=st.sets(st.text(max_size=2)),
)
def test_taking_out_leaves_what_was_never_added(bodies, gone):
    lexicon, kept = Lexicon(), Lexicon()
    for event_id, body in bodies.items():
        lexicon.add(event_id, body)
        if event_id not in gone:
            kept.add(event_id, body)
    for event_id in gone & bodies.keys():
        lexicon.remove(event_id)
    assert len(lexicon) == len(kept)
    words = [b"#%d" % token for token in range(10)]
    for word in words:
        assert lexicon.holders(word) == kept.holders(word)
        assert {*lexicon.both(word, words[0])} == {*kept.both(word, words[0])}
    with pytest.raises(KeyError):
        lexicon.remove("nobody")
