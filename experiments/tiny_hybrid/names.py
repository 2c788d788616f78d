"""Invented names and values, and which of them belong to training and which to evaluation.

The checksum of a value decides its side, so that no run can train on what another evaluates. A value of several
invented words consists of words of its own side.
"""

import random
import zlib
from typing import Literal

from experiments.tiny_hybrid import vocabulary as words

Split = Literal["train", "eval"]

EVAL_SHARE = 8
"""One in so many values is kept for evaluation."""

ONSETS = words.listed(
    """b c d f g h j k l m n p r s t v w y z b d f g k l m n p r s t v br cr dr fr gr pr tr bl cl fl gl pl sl
    sk sm sn sp st sw th sh ch qu wh str kn ph - -"""
)
NUCLEI = words.listed("a e i o u a e i o u a e i o ai ea ee ei ie oa oo ou au y")
CODAS = words.listed("n r l s t k m x d g p ck ll ss nd nt rt rd rn lt lm st sk sh th ng mp ff ld ve")
INNER = ("", "", "", "n", "r", "l", "s", "m")
ENDINGS = words.listed("a o e i y er on en in el ia us is um ette ina ford ton berg wick dale ham ley mont burg stein")
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"


def side(value: str) -> Split:
    """The side that a value belongs to."""
    return "eval" if zlib.crc32(value.lower().encode()) % EVAL_SHARE == 0 else "train"


def pseudo_word(draw: random.Random) -> str:
    """A pronounceable word in lower case, of either side."""
    choice = draw.choice
    word = choice(ONSETS) + choice(NUCLEI)
    if draw.random() < 0.3:
        word += choice(INNER) + choice(ONSETS) + choice(NUCLEI)
    kind = draw.random()
    if kind < 0.4:
        return word + choice(CODAS)
    return word + choice(CODAS if kind < 0.6 else ONSETS) + choice(ENDINGS)


class Values:
    """Draws values of one side."""

    def __init__(self, draw: random.Random, split: Split) -> None:
        self.draw = draw
        self.split = split

    def word(self) -> str:
        """A pseudo-word in lower case."""
        while True:
            word = pseudo_word(self.draw)
            if side(word) == self.split:
                return word

    def make(self, kind: str) -> str:
        """A value of a kind: the name of a method, or a type of entity, which gives a name."""
        method = getattr(self, kind + "_value", None)
        if method is None:
            raise ValueError(f"no values of kind {kind}")
        if kind in ("person", "place", "company", "thing", "animal", "region", "label"):
            return str(method())
        while True:
            value = str(method())
            if side(value) == self.split:
                return value

    def person_value(self) -> str:
        """A given name, at times with a family name."""
        name = self.word().capitalize()
        return f"{name} {self.word().capitalize()}" if self.draw.random() < 0.15 else name

    def place_value(self) -> str:
        """The name of a town."""
        name = self.word().capitalize()
        chance = self.draw.random()
        if chance < 0.07:
            return self.draw.choice(("Port ", "New ", "Upper ", "Lake ")) + name
        return name + self.draw.choice((" Bay", " Hill", " Bridge")) if chance < 0.12 else name

    def company_value(self) -> str:
        """The name of a firm."""
        name = self.word().capitalize()
        chance = self.draw.random()
        if chance < 0.1:
            return f"{name} & {self.word().capitalize()}"
        return name + self.draw.choice((" Works", " Ltd", " Services")) if chance < 0.25 else name

    def region_value(self) -> str:
        """The name of a region."""
        return self.word().capitalize()

    thing_value = animal_value = region_value

    def label_value(self) -> str:
        """A word or name of no particular type."""
        word = self.word()
        return word if self.draw.random() < 0.4 else word.capitalize()

    def number_value(self) -> str:
        """Two to six digits."""
        return str(self.draw.randrange(10, 10 ** self.draw.randrange(2, 7)))

    def code_value(self) -> str:
        """Letters and digits, as on a plate or a bay."""
        draw = self.draw
        form = draw.randrange(4)
        if form == 0:
            return f"{draw.choice(LETTERS)}{draw.randrange(10, 1000)}"
        if form == 1:
            return f"{draw.choice(LETTERS)}{draw.choice(LETTERS)} {draw.randrange(100, 10000)}"
        if form == 2:
            return f"{draw.choice(LETTERS)}{draw.choice(LETTERS)}-{draw.randrange(1000, 100000)}"
        return f"{draw.randrange(10, 1000)}-{draw.randrange(10, 1000)}"

    def password_value(self) -> str:
        """Words and digits run together."""
        draw = self.draw
        form = draw.randrange(3)
        if form == 0:
            return f"{pseudo_word(draw)}-{pseudo_word(draw)}"
        if form == 1:
            return f"{draw.choice(words.ADJECTIVES)}-{draw.choice(words.THINGS)}"
        return f"{pseudo_word(draw)}{draw.randrange(10, 1000)}"

    def time_value(self) -> str:
        """A time of day."""
        draw = self.draw
        if draw.random() < 0.8:
            return f"{draw.randrange(1, 24)}:{draw.randrange(60):02d}"
        return f"{draw.randrange(1, 24)} o'clock on {draw.choice(words.DAYS)}"

    def date_value(self) -> str:
        """A day of a year."""
        draw = self.draw
        date = f"the {ordinal(draw.randrange(1, 31))} of {draw.choice(words.MONTHS)}"
        return f"{date} {draw.randrange(1980, 2060)}" if draw.random() < 0.3 else date

    def price_value(self) -> str:
        """An amount of money, without its unit."""
        draw = self.draw
        amount = draw.randrange(10, 10 ** draw.randrange(2, 6))
        return f"{amount:,}" if draw.random() < 0.5 else str(amount)

    def spot_value(self) -> str:
        """Where a thing can lie: a phrase of words that are all known."""
        draw = self.draw
        return f"{draw.choice(words.PREPOSITIONS)} the {draw.choice(words.ADJECTIVES)} {draw.choice(words.THINGS)}"

    def deed_value(self) -> str:
        """What somebody can do."""
        draw = self.draw
        return f"{draw.choice(words.DEEDS)} the {draw.choice(words.ADJECTIVES)} {draw.choice(words.THINGS)}"

    def reason_value(self) -> str:
        """A clause."""
        draw = self.draw
        return f"the {draw.choice(words.ADJECTIVES)} {draw.choice(words.THINGS)} was {draw.choice(words.STATE_PHRASES)}"

    def dish_value(self) -> str:
        """Something to eat, known or not."""
        draw = self.draw
        dish = draw.choice(words.DISHES) if draw.random() < 0.4 else pseudo_word(draw)
        return f"{draw.choice(words.ADJECTIVES)} {dish}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, …"""
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number in (11, 12, 13) else last}"
