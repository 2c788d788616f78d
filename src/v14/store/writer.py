"""The background thread that commits what is pending, and what happens while the disk says no.

state      flush                 pending events
working    waits for the commit  leave memory when committed
failing    returns at once       stay readable, are tried again with growing pauses; beyond the bound lost
closed     returns at once       the last try has been made

Whatever else changes the store (forgetting, expiring) runs on the same thread, between two commits: nothing is
rewritten while something is written.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from v14.errors import StoreError
from v14.store.pending import Batch, Pending

log = logging.getLogger("v14.store")

MAX_PAUSE_S = 30.0
TEND_S = 30.0

Result = TypeVar("Result")


@dataclass(frozen=True)
class Job:
    """Something to do between two commits, and where its result or error goes."""

    call: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)

    def run(self) -> None:
        """Do it."""
        try:
            self.future.set_result(self.call())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the result gets it
            self.future.set_exception(error)


def _nothing() -> None:
    """What a store without policies has to tend to."""


class Writer:
    """Runs `commit` on batches of what is pending. `commit` gets a batch and raises where it could not be stored."""

    def __init__(
        self, commit: Callable[[Batch], None], *, batch_bytes: int, max_failed_bytes: int, retry_s: float,
        tend: Callable[[], None] = _nothing, tend_s: float = TEND_S, gather_s: float = 0.0,
    ) -> None:  # fmt: skip
        """Sizes are bytes of traces; `retry_s` is the first pause after a failure, doubled up to 30 seconds.

        `tend` is called about every `tend_s` seconds; what it raises is logged. What nobody waits for is gathered for
        `gather_s` seconds, or up to `batch_bytes`, before it is written.
        """
        self._gather_s, self._gathered_at, self._num_waiting = gather_s, math.inf, 0
        self._tend, self._tend_s, self._tend_at = tend, tend_s, time.monotonic() + tend_s
        self._jobs: deque[Job] = deque()
        self._commit, self._batch_bytes, self._max_failed_bytes = commit, batch_bytes, max_failed_bytes
        self._retry_s, self._pause_s, self._retry_at = retry_s, 0.0, 0.0
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
            self._num_waiting += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: self._failing or self._pending.settled(number), timeout_s)
            finally:
                self._num_waiting -= 1

    def run(self, call: Callable[[], Result]) -> Result:
        """What `call` returns or raises, called on the writer's thread between two commits, also while writing fails.

        Raises `StoreError` once closed. Not to be called from the writer's thread.
        """
        job = Job(call)
        with self._changed:
            if self._closing:
                raise StoreError("the store is closed")
            self._jobs.append(job)
            self._changed.notify_all()
        result: Result = job.future.result()
        return result

    def begin(self, call: Callable[[], None]) -> None:
        """Have `call` called on the writer's thread before anything else, without waiting; what it raises is logged."""
        with self._changed:
            self._jobs.append(Job(partial(self._safely, call)))
            self._changed.notify_all()

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
        if isinstance(batch, Job):
            batch.run()
            return True
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

    def _next(self) -> Batch | Job | None:
        """Wait for work, and out the pause after a failure; None when closed and nothing is left to try."""
        with self._changed:
            while not (self._jobs or self._closing):
                now = time.monotonic()
                if now >= self._tend_at:
                    self._tend_at = now + self._tend_s
                    return Job(partial(self._safely, self._tend))
                idle = self._pending.settled(self._pending.last_number)
                write_at = math.inf if idle else self._write_at(now)
                if now >= write_at:
                    break
                self._changed.wait(min(write_at, self._tend_at) - now)
            if self._jobs:
                return self._jobs.popleft()
            if self._pending.settled(self._pending.last_number):
                return None
            self._busy, self._gathered_at = True, math.inf
            return self._pending.take(self._batch_bytes)

    def _write_at(self, now: float) -> float:
        """When what is pending is to be written, in the time of `time.monotonic`."""
        if self._gathered_at == math.inf:
            self._gathered_at = now + self._gather_s
        hurried = self._num_waiting or self._pending.num_bytes >= self._batch_bytes
        return max(self._retry_at, now if hurried else self._gathered_at)

    def _safely(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - tried again the next time; serving goes on
            self._report(error)

    def _succeeded(self, batch: Batch) -> None:
        self._pending.settle(batch)
        if self._failing:
            log.info("the store can be written again")
            self._pause_s = 0.0
            self._reported.clear()

    def _failed(self) -> None:
        self._pause_s = min(MAX_PAUSE_S, 2 * self._pause_s or self._retry_s)
        self._retry_at = time.monotonic() + self._pause_s
        self._drop(all_of_them=self._closing)

    def _drop(self, *, all_of_them: bool = False) -> None:
        if all_of_them:
            self._pending.renewals.clear()
            self._pending.links.clear()
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
