"""What the two ways of bringing events back were measured to cost, and which of them costs less."""

from collections import defaultdict
from typing import Literal, get_args

Way = Literal["kv", "reread"]
"""Placing the stored trace, or reading its tokens again."""

NEWEST = 0.25
"""Weight of the newest measurement in the running mean."""

RETRY_EVERY = 32
"""How often the dearer way is tried again: what was measured once, on a cold disk, must not decide for ever."""


class CostBook:
    """Running means of the seconds that a span took, by way and by size.

    Neither way's cost is proportional to the span's length (a GPU reads 64 tokens as fast as 256), so lengths are kept
    apart by powers of two and nothing is extrapolated.
    """

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, Way], float] = {}
        self._choices: defaultdict[int, int] = defaultdict(int)

    def choose(self, num_tokens: int) -> Way:
        """The way to take for a span of `num_tokens`: one that was never measured first, then the cheaper one."""
        size = num_tokens.bit_length()
        known: dict[Way, float] = {}
        for way in get_args(Way):
            if (size, way) not in self._seconds:
                return way  # type: ignore[no-any-return]
            known[way] = self._seconds[size, way]
        self._choices[size] += 1
        return (max if self._choices[size] % RETRY_EVERY == 0 else min)(known, key=known.__getitem__)

    def note(self, way: Way, num_tokens: int, seconds: float) -> None:
        """Enter what a span of `num_tokens` took: for `kv` from the store to the cache, for `reread` its reading."""
        key = num_tokens.bit_length(), way
        before = self._seconds.get(key, seconds)
        self._seconds[key] = before + NEWEST * (seconds - before)
