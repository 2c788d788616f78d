"""Whether what was found is about what was asked, and not a look-alike of it.

    question     In which town did my cousin Belava go to school?
    look-alike   My cousin Kelava went to school in Ulmhithe.      half a name, and all words for the kind
    look-alike   The car of my tailor Belava is grey.              the name, but not whose
    found        Belava, my cousin, went to school in Rathford.    everything, however it is put

Names count by the words that a tokenizer cuts in pieces, and one of them that is missing speaks against an event, as it
cannot against one in other words; so much of a phrase tells "my cousin Belava" from another Belava. Where words tell
little (a small vocabulary, in which every name is one token), the end of the question does: its last tokens have read
all of it, and look-alikes take more of the attention of what stands before. How much of each, and from which odds on a
plan is sure, `v14 upgrade` fits for each model, to a stated rate of false recalls (`v14.upgrade.sureness`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from v14.recall.wording import Likeness

LATE = 8
"""Tokens at the end of a cue whose parts of a vote count by themselves: as a rule those that close the question and
open the reply, and its last words."""

MOST_LOG_ODDS = 300.0
"""More is as good as this: exp has to stay finite."""


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """What counts how much of an event's vote, of its `Likeness`, and of what the cue's last `LATE` tokens give to its
    vote (`late`, the last token first; empty where that does not count); `bar` are the log odds from which on a plan is
    sure."""

    vote: float
    names: float
    words: float
    missing: float
    phrase: float
    open: float = 0.0
    late: tuple[float, ...] = ()
    bar: float

    def odds(self, vote: float, like: Likeness, late: Sequence[float] = ()) -> float:
        """How much more likely an event is to be what was asked for than nothing; 1 where a plan begins to be sure."""
        log_odds = (
            self.vote * vote
            + self.names * like.names
            + self.words * like.words
            + self.missing * like.missing
            + self.phrase * like.phrase
            + self.open * like.open
            + sum(weight * part for weight, part in zip(self.late, late, strict=False))
            - self.bar
        )
        return math.exp(max(-MOST_LOG_ODDS, min(MOST_LOG_ODDS, log_odds)))
