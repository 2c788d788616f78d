"""Whether what was found is about what was asked, and not a look-alike of it.

    question     In which town did my cousin Belava go to school?
    look-alike   My cousin Kelava went to school in Ulmhithe.      half a name, and all words for the kind
    look-alike   The car of my tailor Belava is grey.              the name, but not whose
    found        Belava, my cousin, went to school in Rathford.    everything, however it is put

What is shared of a name counts by its rarest pairs of tokens, whole words by how much of the question they are, and
what is missing right beside them speaks against an event. How much of each, and from which odds on a plan is sure, `v14
upgrade` fits for each model, to a stated rate of false recalls (`v14.upgrade.sureness`).
"""

import math
from dataclasses import dataclass

from v14.recall.terms import Likeness

LEAST_WORDS = 0.1
"""Added to what is shared of whole words: of less than that differences say nothing."""

MOST_LOG_ODDS = 300.0
"""More is as good as this: exp has to stay finite."""


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """What counts how much of an event's vote and of its `Likeness`; `bar` are the log odds from which on a plan is
    sure. It is sure as well from `least` on (above `bar`, so below 0) where no other vote is more than `alone` of the
    best one."""

    vote: float
    name: float
    words: float
    share: float
    missing: float
    bar: float
    least: float
    alone: float

    def odds(self, vote: float, like: Likeness) -> float:
        """How much more likely an event is to be what was asked for than nothing; 1 where a plan begins to be sure."""
        log_odds = (
            self.vote * vote
            + self.name * like.name
            + self.words * math.log(like.words + LEAST_WORDS)
            + self.share * like.share
            + self.missing * like.missing
            - self.bar
        )
        return math.exp(max(-MOST_LOG_ODDS, min(MOST_LOG_ODDS, log_odds)))
