"""All that one check tells and asks, made before anything is sent: the package's own, from a seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from v14.check import unrelated
from v14.check.facts import SUBJECTS, Fact, generate
from v14.check.related import Related, chains, corrected
from v14.check.unrelated import Question

NUM_FACTS = 30

LongText = Callable[[int, str, int], str]
"""Makes a text from a number (its seed), a sentence that stands in the middle of it, and its length in words."""


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What is told and asked, by the rows that need it; what is empty is not checked.

    spare_facts: for the rows of one question, apart from `facts`. chats: first messages about other things. story: what
    is said behind a fact so that the reply is long. timed: a timed prompt of a question `{q}` and a number `{n}`.
    pictures: whether the question about a picture, which is English, is asked. source: the file that all this is from.
    """

    facts: Sequence[Fact]
    spare_facts: Sequence[Fact] = ()
    unrelated: Sequence[Question] = ()
    chats: Sequence[str] = ()
    corrected_once: Sequence[Related] = ()
    corrected_twice: Sequence[Related] = ()
    two_step: Sequence[Related] = ()
    long_text: LongText | None = None
    story: str = ""
    timed: str = "{n}. {q}"
    pictures: bool = False
    source: str | None = None


def english(seed: int) -> Questions:
    """The package's own. No value is told twice: an answer would be right by chance."""
    facts = generate(seed, len(SUBJECTS))
    taken = [fact.value for fact in facts]
    once, twice = corrected(seed, taken)
    taken += [value for fact in (*once, *twice) for value in (fact.value, *fact.outdated)]
    return Questions(
        facts=facts[:NUM_FACTS],
        spare_facts=facts[NUM_FACTS:],
        unrelated=unrelated.questions(seed),
        chats=unrelated.chats(seed),
        corrected_once=once,
        corrected_twice=twice,
        two_step=chains(seed, taken),
        long_text=partial(_landscape, seed),
        story="Write a long story about it.",
        timed="Message {n}. {q} Answer, then tell a story about it.",
        pictures=True,
    )


def _landscape(seed: int, number: int, middle: str, num_words: int) -> str:
    return unrelated.long_text(seed + number, middle, num_words)
