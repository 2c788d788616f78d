"""Building the calibration set from a seed: chats to store, and questions with what they should recall."""

import random
from dataclasses import dataclass

from v14.upgrade.calibration import chats as texts
from v14.upgrade.calibration.kinds import KINDS
from v14.upgrade.calibration.strangers import STRANGERS

FACTS_PER_KIND = 3
"""Facts of one kind in the store, where it has as many subjects: each is the others' hardest distractor."""


@dataclass(frozen=True, kw_only=True)
class Chat:
    """Turns (role, text) of one stored chat, the first one a user's. `fact` numbers the fact that turn states."""

    turns: tuple[tuple[str, str], ...]
    fact: int | None = None


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question in a new chat; `fact` is what it should recall, None for nothing, and `then` another one that this
    leads to. `held_out` ones choose no voters.

    A `stranger` is asked like a fact, of something that nothing was told of: it chooses no voters either, but how sure
    a plan has to be. A `lonely` one has no look-alikes but one or two things of its kind.
    """

    text: str
    fact: int | None
    held_out: bool
    stranger: bool = False
    lonely: bool = False
    then: int | None = None


@dataclass(frozen=True, kw_only=True)
class CalibrationSet:
    """Everything that is read once at upgrade. `doubts` says how sure a plan has to be; without it, the set itself."""

    chats: tuple[Chat, ...]
    questions: tuple[Question, ...]
    null: str
    doubts: "CalibrationSet | None" = None


def build(seed: int = 0, *, num_kinds: int | None = None) -> CalibrationSet:
    """The set of a seed: facts of every kind (or of the first `num_kinds` only), questions, distractors.

    Kinds alternate between the choosing and the held-out half, so that a held-out question is of a kind that no voter
    was chosen on. Beside each fact stand others of its kind, and an acknowledgement behind it; a third of the facts
    was asked for before, in vain. Half of the questions are in the statement's own words, half are not.
    """
    draw = random.Random(seed)
    stored: list[Chat] = []
    questions: list[Question] = []
    fact = 0
    for number, kind in enumerate(KINDS[:num_kinds]):
        held_out = bool(number % 2)
        given = draw.sample(kind.values, min(len(kind.subjects), FACTS_PER_KIND))
        for subject, value in zip(draw.sample(kind.subjects, len(given)), given, strict=True):
            statement = draw.choice(kind.statements).format(s=subject, v=value)
            statement = draw.choice(texts.LEAD_INS) + statement[0].upper() + statement[1:]
            stored.append(
                Chat(turns=(("user", statement), ("assistant", draw.choice(texts.ACKNOWLEDGEMENTS))), fact=fact)
            )
            forms = [kind.ask(subject), kind.ask(subject, reworded=True)]
            questions.extend(Question(text=form, fact=fact, held_out=held_out) for form in forms)
            if fact % 3 == 0:
                stored.append(Chat(turns=(("user", draw.choice(forms)), ("assistant", draw.choice(texts.DENIALS)))))
            fact += 1
        strangers = [kind.ask(name, reworded=bool(n % 2)) for n, name in enumerate(STRANGERS.get(kind.name, ()))]
        questions.extend(Question(text=text, fact=None, held_out=held_out, stranger=True) for text in strangers)
    general = draw.sample(texts.QUESTIONS, len(texts.QUESTIONS))
    questions.extend(Question(text=text, fact=None, held_out=bool(n % 2)) for n, text in enumerate(general))
    talk = [Chat(turns=(("user", said), ("assistant", reply))) for said, reply in texts.SMALL_TALK]
    stored.extend(talk)
    draw.shuffle(stored)
    return CalibrationSet(chats=tuple(stored), questions=tuple(questions), null=texts.NULL_PROMPTS[0])


def values() -> frozenset[str]:
    """Every value and name of the set, for a test that no check uses one of them."""
    return frozenset(value for kind in KINDS for value in kind.values)
