"""Hearing of other servers' commits, as PostgreSQL tells them (LISTEN/NOTIFY): nobody polls.

A notification carries the commit's number and the digests of the namespaces that it changed. While the listener is cut
off nothing is known; once it listens again, everything up to the number of that moment has to be asked for.
"""

import contextlib
import json
import logging
import os
import select
import threading
from collections.abc import Callable, Collection

import psycopg
from psycopg import sql

from v14.store.audit import namespace_digest
from v14.store.shared.connection import Plain

log = logging.getLogger("v14.store")

MAX_PAYLOAD_BYTES = 7999
"""PostgreSQL's own limit."""

MAX_NAMESPACES = 100_000
"""Namespaces whose last change is remembered; beyond, all of them count as changed."""

LIFE_SIGN_S = 10.0
FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 30.0


def payload(number: int, digests: Collection[str]) -> str:
    """What a commit tells: its number, and the digests of what it changed, or none if they are too many."""
    text = json.dumps([number, *digests], separators=(",", ":"))
    return text if len(text) <= MAX_PAYLOAD_BYTES else json.dumps([number])


class Latest:
    """The last change of each namespace, as far as it was heard of. Safe for several threads."""

    def __init__(self) -> None:
        """`is_cut_off` is True where listening was tried and failed."""
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._complete_from: int | None = None
        self.is_cut_off = False

    def listening(self, number: int) -> None:
        """From commit `number` on, every change is heard of."""
        with self._lock:
            self._numbers.clear()
            self._complete_from, self.is_cut_off = number, False

    def lost(self) -> None:
        """Nothing is heard of any more."""
        with self._lock:
            self._complete_from, self.is_cut_off = None, True

    def hear(self, number: int, digests: Collection[str]) -> None:
        """Commit `number` changed the namespaces of these digests; any, if none are given."""
        with self._lock:
            self._numbers.update(dict.fromkeys(digests, number))
            if self._complete_from is not None and (not digests or len(self._numbers) > MAX_NAMESPACES):
                self._numbers.clear()
                self._complete_from = number

    def is_unchanged(self, namespace: str, since: int) -> bool:
        """Whether surely nothing was committed in a namespace after commit `since`."""
        with self._lock:
            if self._complete_from is None or since < self._complete_from:
                return False
            return self._numbers.get(namespace_digest(namespace), 0) <= since


class Listener:
    """A thread with a connection of its own that hears of commits."""

    def __init__(
        self, open_connection: Callable[[], Plain], channel: str, *,
        caught_up: Callable[[Plain], None], heard: Callable[[int, Collection[str]], None], lost: Callable[[], None],
    ) -> None:  # fmt: skip
        """`caught_up` is called once it listens, with its connection, `heard` for each commit from then on, `lost` when
        the connection is."""
        self._open, self._channel = open_connection, channel
        self._caught_up, self._heard, self._lost = caught_up, heard, lost
        self._closing, self._pause_s = threading.Event(), 0.0
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._run, name="v14-store-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        if not self._closing.is_set():
            self._closing.set()
            os.write(self._wake_writer, b"\0")
            self._thread.join()
            os.close(self._wake_reader)
            os.close(self._wake_writer)

    def _run(self) -> None:
        while not self._closing.wait(self._pause_s):
            try:
                with contextlib.closing(self._open()) as connection:
                    self._listen(connection)
            except psycopg.Error as error:
                if not self._pause_s:
                    log.warning("changes of the shared store cannot be heard of (%s); tried again", error)
                self._pause_s = min(MAX_PAUSE_S, 2 * self._pause_s or FIRST_PAUSE_S)
            except Exception:
                log.exception("the listener of the shared store failed; tried again")
                self._pause_s = MAX_PAUSE_S
            self._lost()

    def _listen(self, connection: Plain) -> None:
        connection.add_notify_handler(lambda notify: self._hear(notify.payload))
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        self._caught_up(connection)
        self._pause_s = 0.0
        waiting = select.poll()  # `select.select` knows no descriptor above 1023, and a server may have more
        for descriptor in (connection.fileno(), self._wake_reader):
            waiting.register(descriptor, select.POLLIN)
        while not self._closing.is_set():
            waiting.poll(1000 * LIFE_SIGN_S)
            # Also reads what was told, and finds out whether the server still lives.
            connection.execute("SELECT 1")

    def _hear(self, text: str) -> None:
        number, *digests = json.loads(text)
        self._heard(number, digests)
