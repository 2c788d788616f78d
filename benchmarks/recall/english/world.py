"""The English world: cases of every row, and what else is told around them."""

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from benchmarks.recall.chats import Case, Chat, Passage, Turns
from benchmarks.recall.english import documents, names, talk
from benchmarks.recall.english.kinds import ABROAD, KINDS, OF_PEOPLE, Kind

CHANGES = ("That has changed: ", "News: ", "Forget what I said before. ", "It is different now. ", "")
ROLES = ("gardener", "notary", "chess partner", "music teacher", "driver", "lodger", "accountant", "sparring partner")
_LINKS = ("{n} is the {r} of {s}", "{s} has a new {r}, {n}", "for {r} {s} now has {n}")
_SERIES = (
    ("{s} dropped by today and brought a {v}", "bring", "visit"),
    ("at the flea market {s} bought a {v} today", "buy at the flea market", "trip"),
    ("today the neighbours gave {s} a {v}", "get from the neighbours", "occasion"),
)
_PAST = (
    "Before that changed: {q}",
    "{q} I do not mean the present answer but the earlier one.",
    "What had I told you at first? {q}",
)
_GENERAL = (
    "How does a sundial show the hour?",
    "Why does iron rust?",
    "Give me three words for 'happy'.",
    "How many wheels does a tricycle have?",
    "What is a sonnet?",
    "Which is heavier, lead or cork?",
    "Name two birds that cannot fly.",
    "What is the sum of 45 and 17?",
    "Where does chocolate come from?",
    "Write a sentence with the word 'lantern'.",
    "What does a botanist study?",
    "How do I fold a paper boat?",
    "Why do stars twinkle?",
    "What is the capital of Norway?",
    "How long is a marathon?",
    "What do you call a baby kangaroo?",
    "Why do onions make people cry?",
    "Which season comes after summer?",
    "How do I peel a mango?",
    "What is an isosceles triangle?",
)
_COUNTS = ("zero", "one", "two", "three", "four", "five")
QUESTIONS_PER_DOCUMENT = 10
DOCUMENT_TOKENS = {"line in 2k": 1_800, "line in 8k": 7_200, "line in 32k": 29_000}


class English:
    """See `benchmarks.recall.chats.World`. All of a world's subjects differ: a question never means two facts."""

    rows: tuple[str, ...] = (
        "single fact",
        "paraphrase",
        "two-step",
        "three-step",
        "corrected",
        "corrected twice",
        "old value",
        "temporal",
        "count",
        "absent",
        "general",
        "instruction",
        "line in 2k",
        "line in 8k",
        "line in 32k",
        "german",
        "spanish",
        "chinese",
        "code",
    )

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._draw = random.Random(f"english {seed}")
        self._taken: set[str] = set()

    def cases(self, row: str, num: int) -> list[Case]:
        """See `World`."""
        if row in DOCUMENT_TOKENS:
            sizes = [min(QUESTIONS_PER_DOCUMENT, num - done) for done in range(0, num, QUESTIONS_PER_DOCUMENT)]
            return [case for group, size in enumerate(sizes) for case in self._document(row, group, size)]
        makers: dict[str, Callable[[str, int], Case]] = {
            "single fact": self._fact,
            "paraphrase": lambda row, number: self._fact(row, number, reworded=True),
            "two-step": lambda row, number: self._chain(row, 1),
            "three-step": lambda row, number: self._chain(row, 2),
            "corrected": lambda row, number: self._corrected(row, 1),
            "corrected twice": lambda row, number: self._corrected(row, 2),
            "old value": lambda row, number: self._corrected(row, 1, past=True),
            "temporal": lambda row, number: self._series(row),
            "count": lambda row, number: self._count(row),
            "absent": lambda row, number: self._absent(row),
            "general": lambda row, number: Case(row=row, chats=(), question=self._general(number)),
            "instruction": lambda row, number: self._instruction(row),
            **{kind.name: lambda row, number: self._abroad(row, number) for kind in ABROAD},
        }
        return [makers[row](row, number) for number in range(num)]

    def distractors(self) -> Iterator[Chat]:
        """See `World`."""
        return talk.distractors(self._draw, self._fresh)

    def context(self, passages: Sequence[Passage], question: str) -> Turns:
        """See `World`."""
        notes = "\n".join(f"- {_date(said_at)}: {text}" for said_at, text in passages)
        return (("user", f"Notes from earlier chats, oldest first:\n{notes}\n\n{question}"),)

    def _subject(self, about: str) -> str:
        """Somebody or a firm that was not spoken of yet: no name in it was, which might be all that a question says."""
        while True:
            subject = names.somebody(self._draw) if about == "somebody" else names.firm(self._draw)
            if subject not in self._taken:
                self._taken.add(subject)
                return subject

    def _person(self) -> str:
        """A full name that was not spoken of yet."""
        while (name := names.person(self._draw)) in self._taken:
            pass
        self._taken.add(name)
        return name

    def _fresh(self, kinds: tuple[Kind, ...] = KINDS) -> tuple[Kind, str]:
        kind = self._draw.choice(kinds)
        return kind, self._subject(kind.about)

    def _values(self, kind: Kind, num: int) -> list[str]:
        """Values of which none is in another."""
        values: list[str] = []
        while len(values) < num:
            value = kind.draw_value(self._draw)
            if not any(value in other or other in value for other in values):
                values.append(value)
        return values

    def _told(self, statement: str) -> Chat:
        return talk.told(self._draw, statement)

    def _fact(self, row: str, number: int, reworded: bool = False) -> Case:
        kind, subject = self._fresh()
        (value,) = self._values(kind, 1)
        statement = kind.state(self._draw, subject, value)
        chats = [self._told(statement)]
        if number % 5 == 4:
            # Asked before, in vain, in the words that the question does not use.
            chats.insert(0, talk.asked_in_vain(self._draw, kind.ask(subject, reworded=not reworded)))
        question = kind.ask(subject, reworded=reworded)
        return Case(row=row, chats=tuple(chats), question=question, accepted=(value,), needed=(statement,))

    def _abroad(self, row: str, number: int) -> Case:
        """A fact in another language or about code, told as it is; every second one is asked in other words."""
        kind = self._draw.choice([kind for kind in ABROAD if kind.name == row])
        subject = self._person() if kind.about == "somebody" else names.family(self._draw).lower()
        (value,) = self._values(kind, 1)
        statement = kind.state(self._draw, subject, value)
        chat = Chat(turns=(("user", statement), ("assistant", self._draw.choice(talk.ACKNOWLEDGEMENTS))))
        return Case(
            row=row,
            chats=(chat,),
            question=kind.ask(subject, reworded=number % 2 == 1),
            accepted=(value,),
            needed=(statement,),
        )

    def _chain(self, row: str, num_links: int) -> Case:
        """One to two people on the way from the subject to the fact."""
        kind = self._draw.choice(OF_PEOPLE)
        subject = self._subject("somebody")
        phrase, statements, current = subject, [], subject
        for role in self._draw.sample(ROLES, num_links):
            name = self._person()
            text = self._draw.choice(_LINKS).format(n=name, r=role, s=current) + "."
            statements.append(text[0].upper() + text[1:])
            phrase, current = f"the {role} of {phrase}", name
        (value,) = self._values(kind, 1)
        statements.append(kind.state(self._draw, current, value))
        return Case(
            row=row,
            chats=tuple(self._told(statement) for statement in statements),
            question=kind.ask(phrase),
            accepted=(value,),
            needed=tuple(statements),
        )

    def _corrected(self, row: str, num_changes: int, past: bool = False) -> Case:
        kind, subject = self._fresh()
        values = self._values(kind, num_changes + 1)
        statements = [kind.state(self._draw, subject, value) for value in values]
        chats = [self._told(statements[0])]
        for statement in statements[1:]:
            text = self._draw.choice(CHANGES) + statement
            chats.append(Chat(turns=(("user", text), ("assistant", self._draw.choice(talk.ACKNOWLEDGEMENTS)))))
        question = kind.ask(subject)
        wanted = 0 if past else num_changes
        return Case(
            row=row,
            chats=tuple(chats),
            question=self._draw.choice(_PAST).format(q=question) if past else question,
            accepted=(values[wanted],),
            needed=(statements[wanted],),
            refused=tuple(value for place, value in enumerate(values) if place != wanted),
        )

    def _series(self, row: str) -> Case:
        """Three things of one sort at different times; which came first, last, or behind another?"""
        draw = self._draw
        says, verb, noun = draw.choice(_SERIES)
        subject = self._subject("somebody")
        values: list[str] = []
        while len(values) < 3:
            value = names.VALUES["gift"](draw)
            if value not in values:
                values.append(value)
        texts = [says.format(s=subject, v=value) + "." for value in values]
        statements = [text[0].upper() + text[1:] for text in texts]
        wanted, question = draw.choice(
            (
                (0, f"What did {subject} {verb} on the first {noun} that I told you about?"),
                (2, f"What did {subject} {verb} on the latest {noun}?"),
                (1, f"What did {subject} {verb} next, after the {values[0]}?"),
                (1, f"What did {subject} {verb} on the {noun} before the one with the {values[2]}?"),
            )
        )
        return Case(
            row=row,
            chats=tuple(self._told(statement) for statement in statements),
            question=question,
            accepted=(values[wanted],),
            needed=tuple(statements),
            refused=tuple(value for place, value in enumerate(values) if place != wanted),
        )

    def _count(self, row: str) -> Case:
        draw = self._draw
        subject, number = self._subject("somebody"), draw.randint(2, 4)
        buyers = [self._person() for _ in range(number)]
        texts = [f"{subject} sold a painting today, {buyer} bought it." for buyer in buyers]
        statements = [text[0].upper() + text[1:] for text in texts]
        return Case(
            row=row,
            chats=tuple(self._told(statement) for statement in statements),
            question=f"How many paintings has {subject} sold, going by what I told you?",
            accepted=(_COUNTS[number], str(number)),
            needed=tuple(statements),
        )

    def _absent(self, row: str) -> Case:
        """A question about somebody never spoken of; the same was told of many others."""
        kind, subject = self._fresh()
        return Case(row=row, chats=(), question=kind.ask(subject, reworded=self._draw.random() < 0.5))

    def _general(self, number: int) -> str:
        if number < len(_GENERAL):
            return _GENERAL[number]
        return f"What is {self._draw.randint(12, 99)} times {self._draw.randint(3, 12)}?"

    def _instruction(self, row: str) -> Case:
        kind, subject = self._fresh()
        (value,) = self._values(kind, 1)
        statement = kind.state(self._draw, subject, value)
        text, marker = documents.ordering(self._draw, statement)
        chat = Chat(turns=(("user", text), ("assistant", self._draw.choice(talk.ACKNOWLEDGEMENTS))))
        return Case(
            row=row,
            chats=(chat,),
            question=kind.ask(subject),
            accepted=(value,),
            needed=(statement,),
            refused=(marker,),
        )

    def _document(self, row: str, group: int, num: int) -> list[Case]:
        """Questions about one document, a line each."""
        facts = []
        for _ in range(num):
            kind, subject = self._fresh()
            (value,) = self._values(kind, 1)
            facts.append((kind, subject, value, kind.state(self._draw, subject, value)))
        text = documents.document(self._draw, [fact[-1] for fact in facts], DOCUMENT_TOKENS[row])
        chat = Chat(turns=(("user", text), ("assistant", self._draw.choice(talk.ACKNOWLEDGEMENTS))))
        return [
            Case(
                row=row,
                chats=(chat,),
                question=kind.ask(subject),
                accepted=(value,),
                needed=(statement,),
                group=group,
            )
            for kind, subject, value, statement in facts
        ]


def _date(said_at: float) -> str:
    return f"{datetime.fromtimestamp(said_at, UTC):%d %B %Y, %H:%M}"
