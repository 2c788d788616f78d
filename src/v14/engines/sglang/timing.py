"""How long forward passes take, and what reading a span again added to one.

A span is read in one pass with the prompt behind it, and often costs that pass nothing: a GPU that waits for memory
reads 64 tokens as fast as 256. Its cost is therefore the difference to a pass without it, as passes of that size were
measured before.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from v14.reinstate.cost import NEWEST

MAX_UNREAD = 64
"""Passes whose time is not known yet: the device runs behind."""


Pass = tuple[Callable[[], float | None], int, list[int]]
"""Seconds once they are known, tokens, and sizes of the spans among them."""


@dataclass
class PassTimes:
    """Running means of the seconds of a pass, apart by powers of two of its tokens."""

    seconds: dict[int, float] = field(default_factory=dict)

    def note(self, num_tokens: int, seconds: float) -> None:
        """Enter a pass."""
        before = self.seconds.setdefault(num_tokens.bit_length(), seconds)
        self.seconds[num_tokens.bit_length()] = before + NEWEST * (seconds - before)

    def extra(self, num_tokens: int, num_span: int, seconds: float) -> float:
        """What `num_span` of a pass's tokens cost: the difference to passes without them, its share while unknown."""
        without = self.seconds.get((num_tokens - num_span).bit_length())
        return seconds * num_span / num_tokens if without is None else max(0.0, seconds - without)


@dataclass(kw_only=True)
class Timer:
    """Times of passes that run, or that the device has still to run."""

    times: PassTimes = field(default_factory=PassTimes)
    begun: Any = None
    unread: deque[Pass] = field(default_factory=lambda: deque(maxlen=MAX_UNREAD))

    def begin(self, device: str) -> None:
        """A pass begins."""
        self.begun = mark(device)

    def end(self, device: str, num_tokens: int, spans: list[int]) -> list[tuple[int, float]]:
        """A pass of `num_tokens`, spans of the given sizes among them, ends or is queued.

        Returns (tokens, seconds) of the spans of all passes whose time is known by now.
        """
        self.unread.append((since(self.begun, mark(device)), num_tokens, spans))
        self.begun = None
        known = []
        while self.unread and (seconds := self.unread[0][0]()) is not None:
            _, total, sizes = self.unread.popleft()
            known += [(size, self.times.extra(total, size, seconds)) for size in sizes]
            if not sizes:
                self.times.note(total, seconds)
        return known


def mark(device: str) -> Any:
    """A moment of the device's own time."""
    if device == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def since(begun: Any, ended: Any) -> Callable[[], float | None]:
    """Seconds between two marks; None while the device has not come to the second."""
    if isinstance(begun, float):
        return lambda: ended - begun
    return lambda: begun.elapsed_time(ended) / 1e3 if ended.query() else None
