"""How long the parts of the memory's work take: for the log (SGLANG_V14_PROFILE), metrics, and explaining a request.

Times are seconds of the process's own clock. Where work is only queued on a device, the queueing is what is timed.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Listener = Callable[[str, float], None]
"""Hears of every part's seconds."""

PARTS = {
    "probe": "from a request's arrival at the scheduler to its plan",
    "wait": "waiting for what was read before to be known, and for the cue to reach the CPU",
    "load": "finding the namespace's index, which is read from the store the first time",
    "vote": "votes of all events",
    "choose": "from votes to a plan",
    "explain": "which of the prompt's words the votes rest on, in the background",
    "fetch": "reading traces from the store",
    "turn": "turning keys to where they come to stand",
    "place": "putting a span into the engine's pools, `fetch` and `turn` included",
    "first_token": "from a request's arrival at the scheduler to its first token, `probe` and `place` included",
    "decode": "from a request's first token to its last",
    "observe": "copying off what a finished request has read",
    "keep": "making events of it and storing them, in the background",
}
"""What is timed while SGLang serves, in the order of a request's walk."""


@dataclass(kw_only=True)
class Clock:
    """Seconds spent on one request, by part."""

    listeners: list[Listener] = field(default_factory=list)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Add the time inside to `part`."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add(part, time.perf_counter() - begin)

    def add(self, part: str, seconds: float) -> None:
        """Add time that was measured elsewhere."""
        self.seconds[part] += seconds
        for listener in self.listeners:
            listener(part, seconds)

    def milliseconds(self) -> dict[str, float]:
        """Milliseconds by part, for people."""
        return {part: round(spent * 1e3, 3) for part, spent in self.seconds.copy().items()}

    def __str__(self) -> str:
        """As one line of a log."""
        return " ".join(f"{part}_ms={spent:.2f}" for part, spent in self.milliseconds().items())
