"""What is kept of a trace, in which form and for how much room in all: decided by the operator, for a whole store."""

import math
from dataclasses import dataclass

from v14.codecs.form import NATIVE, Codec, Form


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """`form` is that of new traces. One not said or recalled for `idle_s` seconds is rewritten in `idle_codec`, where
    that is smaller. Beyond `max_bytes` of segments the events that were not asked for the longest are forgotten."""

    form: Form = NATIVE
    idle_codec: Codec = "native"
    idle_s: float = math.inf
    max_bytes: int | None = None


KEEP_EVERYTHING = Keeping()
"""As computed, for ever."""
