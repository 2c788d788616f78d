"""The background thread that commits what is pending, and what happens while the disk says no.

state      flush                 pending events
working    waits for the commit  leave memory when committed
failing    returns at once       stay readable, are tried again with growing pauses; beyond the bound lost
closed     returns at once       the last try has been made
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from v14.errors import StoreError
from v14.store.pending import Batch, Pending

log = logging.getLogger("v14.store")

MAX_PAUSE_S = 30.0


class Writer:
    """Runs `commit` on batches of what is pending. `commit` gets a batch and raises where it could not be stored."""

    def __init__(
        self, commit: Callable[[Batch], None], *, batch_bytes: int, max_failed_bytes: int, retry_s: float
    ) -> None:
        """Sizes are bytes of traces; `retry_s` is the first pause after a failure, doubled up to 30 seconds."""
        self._commit, self._batch_bytes, self._max_failed_bytes = commit, batch_bytes, max_failed_bytes
        self._retry_s, self._pause_s = retry_s, 0.0
        self._pending = Pending()
        self._changed = threading.Condition()
        self._closing = self._busy = False
        self._reported: set[str] = set()
        self.num_lost = 0
        self._thread = threading.Thread(target=self._run, name="v14-store-writer", daemon=True)
        self._thread.start()

    @contextmanager
    def pending(self) -> Iterator[Pending]:
        """What is pending, locked; whatever was added is written soon after. Raises `StoreError` once closed."""
        with self._changed:
            if self._closing:
                raise StoreError("the store is closed")
            number = self._pending.last_number
            yield self._pending
            if self._pending.last_number > number:
                if self._failing and not self._busy:
                    self._drop()
                self._changed.notify_all()

    def flush(self, timeout_s: float | None) -> bool:
        """Wait until everything pending now is committed, or writing fails; False when the time ran out."""
        with self._changed:
            number = self._pending.last_number
            return self._changed.wait_for(lambda: self._failing or self._pending.settled(number), timeout_s)

    def close(self) -> None:
        """Try once more to commit everything and end the thread; events that still cannot be written are lost."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    @property
    def _failing(self) -> bool:
        return self._pause_s > 0

    def _run(self) -> None:
        while self._write_next():
            pass

    def _write_next(self) -> bool:
        """One try to write one batch, a frame of its own so that nothing holds its traces afterwards."""
        batch = self._next()
        if batch is None:
            return False
        try:
            self._commit(batch)
            written = True
        except Exception as error:  # noqa: BLE001 - whatever it is, serving goes on and the events are tried again
            self._report(error)
            written = False
        with self._changed:
            self._busy = False
            if written:
                self._succeeded(batch)
            else:
                self._failed()
            self._changed.notify_all()
        return True

    def _next(self) -> Batch | None:
        """Wait for work, and out the pause after a failure; None when closed and nothing is left to try."""
        with self._changed:
            until = time.monotonic() + self._pause_s
            while not self._closing:
                left_s = until - time.monotonic()
                if left_s <= 0 and not self._pending.settled(self._pending.last_number):
                    break
                self._changed.wait(left_s if left_s > 0 else None)
            if self._pending.settled(self._pending.last_number):
                return None
            self._busy = True
            return self._pending.take(self._batch_bytes)

    def _succeeded(self, batch: Batch) -> None:
        self._pending.settle(batch)
        if self._failing:
            log.info("the store can be written again")
            self._pause_s = 0.0
            self._reported.clear()

    def _failed(self) -> None:
        self._pause_s = min(MAX_PAUSE_S, 2 * self._pause_s or self._retry_s)
        self._drop(all_of_them=self._closing)

    def _drop(self, *, all_of_them: bool = False) -> None:
        if all_of_them:
            self._pending.renewals.clear()
        num_lost = self._pending.drop(-1 if all_of_them else self._max_failed_bytes)
        self.num_lost += num_lost
        if num_lost and "lost" not in self._reported:
            self._reported.add("lost")
            log.error("events that cannot be written are being lost, %d now; the server goes on", num_lost)

    def _report(self, error: Exception) -> None:
        """One line for each kind of failure until writing works again."""
        cause = error.__cause__ if isinstance(error, StoreError) and error.__cause__ else error
        kind = f"{type(cause).__name__} {getattr(cause, 'errno', None) or getattr(cause, 'sqlite_errorname', '')}"
        if kind not in self._reported:
            self._reported.add(kind)
            log.warning(
                "the store cannot be written (%s: %s); new events stay in memory and are tried again",
                type(error).__name__, error, exc_info=not isinstance(error, OSError | StoreError),
            )  # fmt: skip
