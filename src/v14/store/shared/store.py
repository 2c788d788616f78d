"""Opening a shared store, and what only it has to do: hearing of other servers, and collecting what nobody needs."""

import logging
import time
import uuid
from collections.abc import Callable, Sequence

import psycopg

from v14.errors import StoreError, StoreUnavailableError
from v14.home import SharedHome
from v14.store.core import BATCH_BYTES, MAX_FAILED_BYTES, RETRY_S, CoreStore
from v14.store.foundation import open_vault
from v14.store.keeping import KEEP_EVERYTHING, Keeping
from v14.store.layout import HOME_VARIABLE, SEGMENT_SUFFIX
from v14.store.seal import MasterKey
from v14.store.segments import Segments
from v14.store.shared import objects
from v14.store.shared.catalog import SharedCatalog
from v14.store.shared.connection import Wire, connect
from v14.store.shared.listener import Latest, Listener
from v14.store.shared.objects import ObjectBlobs
from v14.store.shared.schema import prepare, schema_of
from v14.store.tending import Tender
from v14.store.vault import Vault
from v14.store.writer import TEND_S
from v14.types import Event, Trace

log = logging.getLogger("v14.store")

GRACE_S = 3600.0
"""How old a segment without rows has to be to count as left behind."""

COLLECT_S = 3600.0
"""Time between two looks for such segments; the first comes soon after the start."""


class SharedStore(CoreStore):
    """The store of one set of weights that several servers read and write at once."""

    num_readers = 16

    def __init__(
        self, home: SharedHome, catalog: SharedCatalog, blobs: ObjectBlobs, listener: Listener, weights_id: str, *,
        clock: Callable[[], float], batch_bytes: int, max_failed_bytes: int, retry_s: float, tend_s: float,
        keeping: Keeping, vault: Vault | None,
    ) -> None:  # fmt: skip
        """Use `open`."""
        self._collect_at = 0.0
        self._tender: Tender | None = None
        self.home, self._shared, self._blobs, self._listener = home, catalog, blobs, listener
        # A name is used for one try to commit: whether an earlier one came true is nobody's guess.
        super().__init__(
            catalog, Segments(blobs, weights_id, vault), name=lambda _: f"{uuid.uuid4().hex}{SEGMENT_SUFFIX}",
            clock=clock, batch_bytes=batch_bytes, max_failed_bytes=max_failed_bytes, retry_s=retry_s, tend_s=tend_s,
            keeping=keeping, vault=vault,
        )  # fmt: skip
        self._tender = Tender(
            catalog, self._segments, self._eraser, keeping, vault,
            new_name=self._new_name, clock=clock, merged_bytes=batch_bytes,
        )  # fmt: skip

    @classmethod
    def open(
        cls, home: SharedHome, weights_id: str, *, clock: Callable[[], float] = time.time,
        batch_bytes: int = BATCH_BYTES, max_failed_bytes: int = MAX_FAILED_BYTES, retry_s: float = RETRY_S,
        tend_s: float = TEND_S, keeping: Keeping = KEEP_EVERYTHING, master: MasterKey | None = None,
    ) -> "SharedStore":  # fmt: skip
        """Open or create the store of `weights_id`. Arguments are those of `DirectoryStore.open`.

        Raises `StoreError` where database or objects cannot be reached or written, `StoreVersionError` for a catalog of
        another format, other weights or other segments, and `StoreKeyError` for one encrypted with another key.
        """
        schema = schema_of(weights_id)
        try:
            with connect(home.conninfo, schema) as connection:
                identity = prepare(connection, weights_id, home.segments)
            blobs = objects.connect(home, schema)
        except (psycopg.Error, ValueError) as error:
            if isinstance(error, StoreError):
                raise
            why = home.hide(str(error))
            raise StoreError(f"the shared store {home} cannot be opened: {why}. Check {HOME_VARIABLE}.") from error
        latest = Latest()
        reader = Wire(lambda: connect(home.conninfo, schema), may_open=lambda: not latest.is_cut_off)
        writer = Wire(lambda: connect(home.conninfo, schema))
        catalog = SharedCatalog(reader, writer, latest, schema)
        segments = ObjectBlobs(blobs, f"{home.segments}/{schema}", catalog)
        try:
            vault = open_vault(catalog, weights_id, master)
            segments.claim(identity)
        except StoreUnavailableError as error:
            catalog.close()
            raise StoreError(f"the shared store {home} cannot be opened: {error}. Check {HOME_VARIABLE}.") from error
        except BaseException:
            catalog.close()
            raise
        listener = Listener(
            lambda: connect(home.conninfo, schema), schema,
            caught_up=lambda connection: latest.listening(_number(connection)), heard=latest.hear, lost=latest.lost,
        )  # fmt: skip
        return cls(
            home, catalog, segments, listener, weights_id,
            clock=clock, batch_bytes=batch_bytes, max_failed_bytes=max_failed_bytes, retry_s=retry_s, tend_s=tend_s,
            keeping=keeping, vault=vault,
        )  # fmt: skip

    def put(self, events: Sequence[tuple[Event, Trace]]) -> None:
        """Queue events. Raises `ValueError` for what can never be stored: text of PostgreSQL holds no NUL."""
        for event, _ in events:
            if "\0" in f"{event.namespace}{event.chat_id}{event.role}{event.parent}":
                raise ValueError(f"event {event.id} has a NUL character in its namespace, chat, role or parent")
        super().put(events)

    def _leftovers(self, replaced: set[str]) -> set[str]:
        """Whatever is doomed, by whichever server."""
        return replaced | set(self._shared.doomed(GRACE_S))

    def _tend(self) -> None:
        """Besides what every store does: keep the budgets, rewrite and merge, and collect."""
        super()._tend()
        if self._tender is not None:
            self._tender.tend()
        if time.monotonic() >= self._collect_at:
            self._collect_at = time.monotonic() + COLLECT_S
            self.collect()

    def collect(self, grace_s: float = GRACE_S) -> int:
        """Delete segments that no row names or will name, whichever server left them; how many.

        Any number of servers may do so at once. Raises `StoreError`.
        """
        names = set(self._shared.doomed(grace_s))
        # Written after they were doomed, by a writer that was stopped in between.
        names |= self._blobs.older_than(grace_s) - self._shared.recorded()
        self._blobs.remove(names)
        return len(names)

    def close(self) -> None:
        """Commit what is pending and close; events that cannot be written are lost. A second call does nothing."""
        self._listener.close()
        super().close()


def _number(connection: "psycopg.Connection[tuple[int]]") -> int:
    ((number,),) = connection.execute("SELECT commits FROM store").fetchall()
    return number
