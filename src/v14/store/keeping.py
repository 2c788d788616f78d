"""What is kept of a trace, in which form and for how much room in all: decided by the operator, for a whole store."""

import math
from dataclasses import dataclass

from v14.codecs.form import NATIVE, Form


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """`form` is that of new traces, `idle` that of those not said or recalled for `idle_s` seconds, where it is
    smaller. Beyond `max_bytes` of segments the events that were not asked for the longest are forgotten."""

    form: Form = NATIVE
    idle: Form = NATIVE
    idle_s: float = math.inf
    max_bytes: int | None = None


KEEP_EVERYTHING = Keeping()
"""As computed, for ever."""
