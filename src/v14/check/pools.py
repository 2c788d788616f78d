"""Values that facts are filled with: large pools, so that no answer is right by chance or by heart."""

import random
from collections.abc import Callable

from v14.check.data import lines

WORDS = {kind: words.split() for kind, words in (line.split(": ") for line in lines("values"))}
"""Lists of at least 50 words by kind."""


def _from(kind: str) -> Callable[[random.Random], str]:
    return lambda rng: rng.choice(WORDS[kind])


POOLS: dict[str, Callable[[random.Random], str]] = {
    **{kind: _from(kind) for kind in WORDS},
    "password": lambda rng: "-".join(rng.sample(WORDS["word"], 2)),
    "code": lambda rng: str(rng.randint(1000, 9999)),
    "number": lambda rng: str(rng.randint(101, 999)),
    "time": lambda rng: f"{rng.randint(1, 12)}:{rng.choice(range(5, 60, 5)):02d}",
    "bay": lambda rng: f"{rng.choice('BCDEFGHJKLMNPRSTVW')}{rng.randint(11, 99)}",
}
"""How a value of each kind is drawn."""
