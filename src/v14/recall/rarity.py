"""How rare a word is, or a term of token ids, among the events that are read."""

import math

RARE = 0.25
"""Rarity from which on what two events share says that they belong together: of N events at most √(2N) hold it."""


def rarity(num_holders: int, num_events: int) -> float:
    """The square of log(N / n) for what n of N events hold, as inverse document frequencies go (Spärck Jones, 1972);
    squared, because one rare name says more than many common words. In units of what two events hold: whatever N, 1 is
    as rare as what is shared can be. Of two events nothing is rare: what both have, others have as well or nobody."""
    if num_events <= 2:
        return 0.0
    return (math.log(max(1.0, num_events / max(1, num_holders))) / math.log(num_events / 2)) ** 2
