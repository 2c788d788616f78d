"""Facts that hang together, from a seed: what was told and then corrected, and what only two chats together say."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from v14.check.data import lines
from v14.check.pools import POOLS


@dataclass(frozen=True, kw_only=True)
class Related:
    """`statements` are told in this order, each in a chat of its own; a right answer contains `value`.

    A statement that was corrected leaves its value in `outdated`: an answer that names one is not right.
    """

    statements: tuple[str, ...]
    question: str
    value: str
    outdated: tuple[str, ...] = ()


CHANGING = tuple(tuple(line.split(" | ")) for line in lines("changing"))
CHAINS = tuple(tuple(line.split(" | ")) for line in lines("chains"))


def corrected(seed: int, taken: Iterable[str] = (), num_facts: int = 6) -> tuple[list[Related], list[Related]]:
    """Facts that are corrected once, and as many others that are corrected twice; no value is one of `taken`."""
    rng = random.Random(f"corrected {seed}")
    draw = _unused(rng, taken)

    def fact(line: tuple[str, ...], num_corrections: int) -> Related:
        told, changed, question, kind = line
        values = [draw(kind) for _ in range(num_corrections + 1)]
        statements = [told.format(v=values[0]), *(changed.format(v=value) for value in values[1:])]
        return Related(statements=tuple(statements), question=question, value=values[-1], outdated=tuple(values[:-1]))

    chosen = rng.sample(CHANGING, 2 * num_facts)
    once, twice = chosen[:num_facts], chosen[num_facts:]
    return [fact(line, 1) for line in once], [fact(line, 2) for line in twice]


def chains(seed: int, taken: Iterable[str] = (), num_chains: int = 6) -> list[Related]:
    """Questions that need two facts, told in two chats and tied by a name; none is one of `taken`."""
    rng = random.Random(f"chains {seed}")
    draw = _unused(rng, taken)
    found = []
    for first, second, question, link_kind, kind in rng.sample(CHAINS, num_chains):
        link, value = draw(link_kind), draw(kind)
        statements = (first.format(b=link), second.format(b=link, v=value))
        found.append(Related(statements=statements, question=question, value=value))
    return found


def _unused(rng: random.Random, taken: Iterable[str]) -> Callable[[str], str]:
    """Draws a value of a kind, each once and none that is taken."""
    seen = {value.lower() for value in taken}

    def draw(kind: str) -> str:
        value = POOLS[kind](rng)
        while value.lower() in seen:
            value = POOLS[kind](rng)
        seen.add(value.lower())
        return value

    return draw
