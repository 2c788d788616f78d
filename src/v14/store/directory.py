"""The embedded store: one directory with a SQLite catalog and segment files, written by one process."""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from v14.errors import StoreError
from v14.store.catalog import Catalog
from v14.store.core import BATCH_BYTES, MAX_FAILED_BYTES, RETRY_S, CoreStore
from v14.store.files import FileBlobs
from v14.store.foundation import open_vault
from v14.store.keeping import KEEP_EVERYTHING, Keeping
from v14.store.layout import HOME_VARIABLE, Layout, segment_name, segment_number
from v14.store.seal import MasterKey
from v14.store.segments import Segments
from v14.store.tending import Tender
from v14.store.vault import Vault
from v14.store.writer import TEND_S

log = logging.getLogger("v14.store")

LOOK_PAGES = 1 << 16
"""Pages of the catalog, 256 MiB, that are looked at for copies of what was deleted whenever the store is tended."""


class DirectoryStore(CoreStore):
    """The store of one set of weights under a home directory."""

    def __init__(
        self, layout: Layout, catalog: Catalog, segments: Segments, blobs: FileBlobs, descriptor: int, *,
        clock: Callable[[], float], batch_bytes: int, max_failed_bytes: int, retry_s: float, tend_s: float,
        keeping: Keeping, vault: Vault | None,
    ) -> None:  # fmt: skip
        """Use `open`."""
        self._layout, self._descriptor = layout, descriptor
        self._tender: Tender | None = None
        self._embedded, self._files, self._first = catalog, blobs, _next_number(catalog)
        # Until a commit succeeds its segment's name is used again: a transaction that reported an error may still
        # come true at the next start (its log was written, syncing it failed), and then finds its events in there.
        super().__init__(
            catalog, segments, name=lambda num_committed: segment_name(self._first + num_committed),
            clock=clock, batch_bytes=batch_bytes, max_failed_bytes=max_failed_bytes, retry_s=retry_s, tend_s=tend_s,
            keeping=keeping, vault=vault,
        )  # fmt: skip
        self._is_tidy = False
        self._tender = Tender(
            catalog, segments, self._eraser, keeping, vault,
            new_name=self._new_name, clock=clock, merged_bytes=batch_bytes,
        )  # fmt: skip

    @classmethod
    def open(
        cls, home: Path, weights_id: str, *,
        clock: Callable[[], float] = time.time, fsync: bool = True,
        batch_bytes: int = BATCH_BYTES, max_failed_bytes: int = MAX_FAILED_BYTES, retry_s: float = RETRY_S,
        tend_s: float = TEND_S, keeping: Keeping = KEEP_EVERYTHING, master: MasterKey | None = None,
    ) -> "DirectoryStore":  # fmt: skip
        """Open or create the store of `weights_id` under `home` for reading and writing.

        `fsync=False` gives up surviving a power cut (not: surviving the end of the process). `batch_bytes` bounds
        the traces of one segment file, `max_failed_bytes` those that wait in memory while the disk cannot be
        written; `retry_s` is the first pause after such a failure; expired events are erased every `tend_s`. With a
        `master` key what is written is encrypted from now on. Raises `StoreError`, `StoreVersionError` for files of
        another format, and `StoreKeyError` for an encrypted store without its key.
        """
        layout = Layout.of(home, weights_id)
        descriptor, catalog = -1, None
        try:
            layout.make()
            fsync = fsync and keeping.sync != "off"
            descriptor = layout.acquire()
            catalog = Catalog(layout.catalog, weights_id, fsync=fsync)
            blobs = FileBlobs(layout.segments, fsync=fsync)
            vault = open_vault(catalog, weights_id, master)
            store = cls(
                layout, catalog, Segments(blobs, weights_id, vault), blobs, descriptor,
                clock=clock, batch_bytes=batch_bytes, max_failed_bytes=max_failed_bytes, retry_s=retry_s, tend_s=tend_s,
                keeping=keeping, vault=vault,
            )  # fmt: skip
            try:
                # A forgetting that was cut off after its transaction is finished before anything is served.
                store._writer.run(store._finish)
            except StoreError as error:
                log.warning("%s", error)
            store._writer.begin(store._tidy)
            return store
        except BaseException as error:
            if catalog is not None:
                catalog.close()
            if descriptor >= 0:
                os.close(descriptor)
            if isinstance(error, OSError):
                raise StoreError(
                    f"the store {layout.root} cannot be opened ({error}); "
                    f"make it writable or set {HOME_VARIABLE} to another directory"
                ) from error
            raise

    @property
    def path(self) -> Path:
        """The directory of this store."""
        return self._layout.root

    def _tend(self) -> None:
        """Besides what every store does: keep the budgets, rewrite what is idle or readable, merge small segments."""
        super()._tend()
        with self._changing():
            if self._tender is not None:
                self._tender.tend()
            self._embedded.look(LOOK_PAGES)

    def _ready(self) -> None:
        """A directory that was taken away and is there again (a disk, a copy) is locked and opened again."""
        try:
            found, held = os.stat(self._layout.lock), os.fstat(self._descriptor)
            if (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino):
                return
            descriptor = self._layout.acquire()
        except OSError as error:
            raise StoreError(
                f"{self._layout.root} is gone ({error}); put it back, or start the server again"
            ) from error
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._embedded.reopen()
        self._first, self._is_tidy = max(self._first, _next_number(self._embedded)), False
        log.warning("%s was taken away and is there again", self._layout.root)

    def _tidy(self) -> None:
        """Remove what no row names: the remainder of a commit that never came.

        In the background, because it takes a look at every file and every segment's rows.
        """
        with self._changing():
            self._files.remove(self._leftovers(set()))

    def _leftovers(self, replaced: set[str]) -> set[str]:
        """Those `replaced`; after opening and after a failure whatever no row names, such as what a commit left of an
        event that awaits its next try."""
        if self._is_tidy:
            return replaced
        self._is_tidy = True
        return self._files.names() - self._catalog.segments()

    def close(self) -> None:
        """Commit what is pending, close, and let go of the directory. A second call does nothing."""
        if self._descriptor < 0:
            return
        super().close()
        os.close(self._descriptor)
        self._descriptor = -1


def _next_number(catalog: Catalog) -> int:
    last = catalog.last_segment()
    return 1 if last is None else 1 + segment_number(last)
