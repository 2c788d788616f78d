"""What is kept of a trace, in which form and for how much room in all: decided by the operator, for a whole store."""

import math
from dataclasses import dataclass

from v14.codecs.form import NATIVE, Form
from v14.config import Sync

GATHER_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """`form` is that of new traces, `idle` that of those not said or recalled for `idle_s` seconds, where it is
    smaller. Beyond `max_bytes` of segments the events that were not asked for the longest are forgotten. `sync` is how
    what is written reaches the disk: with every commit, with commits gathered for `GATHER_S` seconds unless somebody
    waits for them, or when the operating system likes."""

    form: Form = NATIVE
    idle: Form = NATIVE
    idle_s: float = math.inf
    max_bytes: int | None = None
    sync: Sync = "always"


KEEP_EVERYTHING = Keeping()
"""As computed, for ever."""
