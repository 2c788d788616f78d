"""The second set: statements about people and firms whose names share parts, alone and several in one text, chains of
two, and questions about those that nothing was told of. It says how sure a plan has to be, and chooses no voters.

Relations, names and values are generated, none of them of the first set. Names are drawn from few parts, so that what
nothing was told of always has look-alikes: with one name of two, or asked for in the same words.
"""

import random
from collections.abc import Callable
from importlib.resources import files

from v14.upgrade.calibration import chats as texts
from v14.upgrade.calibration.build import CalibrationSet, Chat, Question
from v14.upgrade.calibration.kinds import KINDS
from v14.upgrade.calibration.strangers import STRANGERS

NUM_FACTS, NUM_STRANGERS, NUM_CHAINS, NUM_TALK, NUM_TEXTS = 110, 110, 24, 24, 24
IN_ONE_TEXT = 4
"""Statements of a text; two of them are asked for."""

_GIVEN = (
    "Ash Clem Dov Edw Gwen Hol Jul Kas Lin Mal Ott Ros Sim Tor Val Wen",
    "a bert ida fried gard ias ke ona rik sa tine wyn",
)
_FAMILY = (
    "Brem Clay Drub Ell Fitz Hasel Ingle Kemp Mott Pritch Quill Thorn",
    "bank cote den field ham kirk ley nett pool ridge son wald",
)
_TOWN = (
    "Ash Bram Crow Dun Elm Fox Glen Hazel Mill Oak Rook Stan",
    "burgh bury dale fell grove hurst leigh minster pond stead wich wood",
)
_FIRMS = ("Bakery", "Castings", "Cables", "Glass", "Haulage", "Kitchens", "Pumps", "Sails", "Timber", "Yarns")
_ROLES = (
    "nephew",
    "flatmate",
    "swimming teacher",
    "grandmother",
    "boss",
    "stepson",
    "walking friend",
    "niece",
    "babysitter",
    "electrician",
)
_LINKS = ("{n} is the {r} of {s}", "the {r} of {s} is {n}", "{s} has {n} as a {r}")
_LINKING = ("lawyer", "piano teacher", "tenant", "trainer", "dentist", "business partner")
_POOLS: dict[str, tuple[str, ...]] = {
    "hoard": ("thimbles", "beer mats", "fossils", "door handles", "tin cars", "matchboxes", "old maps", "sea shells"),
    "colour": ("orange", "violet", "striped", "khaki", "yellow", "turquoise", "spotted", "scarlet"),
    "tongue": ("Basque", "Welsh", "Tamil", "Swahili", "Danish", "Korean", "Latvian", "Quechua", "Maltese"),
    "dish": ("lentil soup", "fried liver", "oysters", "beetroot", "blue cheese", "okra", "tripe", "pickled herring"),
    "plant": ("artichokes", "leeks", "hops", "gooseberries", "radishes", "sweet peas", "turnips", "quinces"),
    "trade": ("glassblower", "ferry captain", "tram driver", "beekeeper", "stonemason", "midwife", "typesetter"),
}  # fmt: skip


def doubts(seed: int) -> CalibrationSet:
    """The set of a seed. Half of the questions about facts are in other words, as are those of strangers."""
    return _Writer(seed).written()


class _Writer:
    """Tells facts one by one; no subject is told of twice."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(f"doubts {seed}")
        self._taken: set[str] = set()
        self._chats: list[Chat] = []
        self._questions: list[Question] = []
        text = files("v14.upgrade.calibration").joinpath("relations.txt").read_text(encoding="utf-8")
        self._relations = [
            [part.strip() for part in line.split("|")] for line in text.splitlines() if not line.startswith("#")
        ]
        self._values: dict[str, Callable[[], str]] = {
            "firm": self._firm,
            "number": lambda: str(self._draw.randint(11, 499)),
            "town": lambda: self._joined(_TOWN),
            "person": self._person,
            "name": lambda: self._joined(_GIVEN),
            "room": lambda: f"{self._draw.randint(1, 9)}{self._draw.randint(10, 39)}",
            "hour": lambda: f"{self._draw.randint(4, 9)}:{self._draw.choice(('05', '10', '25', '35', '50', '55'))}",
            "amount": lambda: str(self._draw.randint(10_200, 98_800)),
            "day": lambda: f"the {self._draw.randint(2, 28)}th of {self._draw.choice(('May', 'June', 'October'))}",
            "code": lambda: f"{self._draw.choice('CHJLW')}{self._draw.randint(1000, 9999)}",
        }

    def written(self) -> CalibrationSet:
        """Everything, the chats shuffled."""
        for number in range(NUM_FACTS):
            about, value, states, *asks = self._draw.choice(self._relations)
            subject = self._subject(about)
            self._ask(self._tell(states, subject, value), asks[number % 2].format(s=subject))
        for number in range(NUM_CHAINS):
            self._chain(number)
        for kind in KINDS:
            subject, stranger = self._draw.choice(kind.subjects), STRANGERS.get(kind.name, ())
            statement = self._draw.choice(kind.statements).format(s=subject, v=self._draw.choice(kind.values))
            reworded = self._draw.random() < 0.5
            self._ask(self._state(statement), kind.ask(subject, reworded=reworded))
            for name in stranger:
                self._ask(None, kind.ask(name, reworded=reworded), stranger=True, lonely=True)
        for number in range(NUM_STRANGERS):
            about, _, _, *asks = self._draw.choice(self._relations)
            self._ask(None, asks[number % 2].format(s=self._subject(about)), stranger=True)
        for text in self._draw.sample(texts.QUESTIONS, NUM_TALK):
            self._ask(None, text)
        for said, reply in self._draw.sample(texts.SMALL_TALK, NUM_TALK):
            self._chats.append(Chat(turns=(("user", said), ("assistant", reply))))
        for _ in range(NUM_TEXTS):
            self._text()
        self._draw.shuffle(self._chats)
        return CalibrationSet(chats=tuple(self._chats), questions=tuple(self._questions), null=texts.NULL_PROMPTS[0])

    def _chain(self, number: int) -> None:
        """Who somebody has for something, and a fact about that one, told apart."""
        about, value, states, *asks = self._draw.choice([each for each in self._relations if each[0] == "somebody"])
        subject, name, role = self._subject(about), self._new(self._person), self._draw.choice(_LINKING)
        first = self._state(self._draw.choice(_LINKS).format(n=name, r=role, s=subject) + ".")
        self._ask((first, self._tell(states, name, value)), asks[number % 2].format(s=f"the {role} of {subject}"))

    def _text(self) -> None:
        """Several facts in one turn."""
        told = [(self._subject(kind[0]), kind) for kind in self._draw.sample(self._relations, IN_ONE_TEXT)]
        said = [self._statement(states, subject, value) for subject, (_, value, states, *_) in told]
        fact = self._state(" ".join(each[0].upper() + each[1:] for each in said))
        for number, (subject, (_, _, _, *asks)) in enumerate(told[1:3]):
            self._ask(fact, asks[number].format(s=subject))

    def _tell(self, states: str, subject: str, value: str) -> int:
        return self._state(self._statement(states, subject, value))

    def _statement(self, states: str, subject: str, value: str) -> str:
        draw = self._draw
        found = self._values[value]() if value in self._values else draw.choice(_POOLS[value])
        return draw.choice(states.split(";")).strip().format(s=subject, v=found) + "."

    def _state(self, statement: str) -> int:
        """Tell it in a chat of its own; the number of the fact."""
        draw = self._draw
        fact = sum(chat.fact is not None for chat in self._chats)
        text = draw.choice(texts.LEAD_INS) + statement[0].upper() + statement[1:]
        self._chats.append(Chat(turns=(("user", text), ("assistant", draw.choice(texts.ACKNOWLEDGEMENTS))), fact=fact))
        return fact

    def _ask(
        self, fact: int | tuple[int, int] | None, text: str, *, stranger: bool = False, lonely: bool = False
    ) -> None:
        first, second = fact if isinstance(fact, tuple) else (fact, None)
        self._questions.append(
            Question(text=text, fact=first, then=second, held_out=True, stranger=stranger, lonely=lonely)
        )

    def _subject(self, about: str) -> str:
        """Somebody or a firm that nothing was said of."""
        return self._new(self._somebody if about == "somebody" else self._firm)

    def _new(self, make: Callable[[], str]) -> str:
        while (name := make()) in self._taken:
            pass
        self._taken.add(name)
        return name

    def _somebody(self) -> str:
        own = f"my {self._draw.choice(_ROLES)} {self._joined(_GIVEN)}"
        return self._person() if self._draw.random() < 0.5 else own

    def _person(self) -> str:
        return f"{self._joined(_GIVEN)} {self._joined(_FAMILY)}"

    def _firm(self) -> str:
        return f"{self._joined(_FAMILY)} {self._draw.choice(_FIRMS)}"

    def _joined(self, parts: tuple[str, str]) -> str:
        return "".join(self._draw.choice(part.split()) for part in parts)
