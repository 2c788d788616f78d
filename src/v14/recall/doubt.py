"""Whether what was found is about what was asked, and not a look-alike of it.

    question     In which town did my cousin Belava go to school?
    look-alike   My cousin Kelava went to school in Ulmhithe.      half a name, and all words for the kind
    look-alike   The car of my tailor Belava is grey.              the name, but not whose
    found        Belava, my cousin, went to school in Rathford.    everything, however it is put

Names count by the words that a tokenizer cuts in pieces, and one of them that is missing speaks against an event, as it
cannot against one in other words; so much of a phrase tells "my cousin Belava" from another Belava. How much of each,
and from which odds on a plan is sure, `v14 upgrade` fits for each model, to a stated rate of false recalls
(`v14.upgrade.sureness`).
"""

import math
from dataclasses import dataclass

from v14.recall.wording import Likeness

MOST_LOG_ODDS = 300.0
"""More is as good as this: exp has to stay finite."""


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """What counts how much of an event's vote and of its `Likeness`; `bar` are the log odds from which on a plan is
    sure."""

    vote: float
    names: float
    words: float
    missing: float
    phrase: float
    bar: float

    def odds(self, vote: float, like: Likeness) -> float:
        """How much more likely an event is to be what was asked for than nothing; 1 where a plan begins to be sure."""
        log_odds = (
            self.vote * vote
            + self.names * like.names
            + self.words * like.words
            + self.missing * like.missing
            + self.phrase * like.phrase
            - self.bar
        )
        return math.exp(max(-MOST_LOG_ODDS, min(MOST_LOG_ODDS, log_odds)))
