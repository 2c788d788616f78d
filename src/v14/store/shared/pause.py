"""Leaving a server alone for a while after it failed to answer, so that not every request waits for it anew."""

import threading
import time

from v14.errors import StoreUnavailableError

FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 30.0


class Pause:
    """Grows with every failure in a row. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pause_s, self._until = 0.0, 0.0

    def check(self) -> None:
        """Raise `StoreUnavailableError` within a pause."""
        with self._lock:
            if time.monotonic() < self._until:
                raise StoreUnavailableError("the object store did not answer; it is asked again soon")

    def failed(self) -> None:
        """Begin a pause, twice as long as the one before."""
        with self._lock:
            self._pause_s = min(MAX_PAUSE_S, 2 * self._pause_s or FIRST_PAUSE_S)
            self._until = time.monotonic() + self._pause_s

    def answered(self) -> None:
        """End it."""
        with self._lock:
            self._pause_s = self._until = 0.0
