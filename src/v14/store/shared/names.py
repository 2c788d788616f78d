"""Which namespaces of a shared store may hold something, whichever server wrote it."""

import threading
from collections.abc import Collection

from v14.home import SharedHome
from v14.store.audit import namespace_digest
from v14.store.shared.connection import Plain, connect
from v14.store.shared.listener import Listener
from v14.store.shared.schema import schema_of

MAX_NAMESPACES = 1_000_000


class SharedNames:
    """A set of namespaces that errs on one side: cut off from the catalog, or beyond a million, it says yes of all."""

    def __init__(self, home: SharedHome, weights_id: str) -> None:
        """Listens from now on, for as long as the process lives or until `close`."""
        self._lock = threading.Lock()
        self._digests: set[str] | None = None
        schema = schema_of(weights_id)
        self._listener = Listener(
            lambda: connect(home.conninfo, schema), schema, caught_up=self._read, heard=self._hear, lost=self._lose
        )

    def __contains__(self, name: object) -> bool:
        """Whether a namespace may hold something."""
        with self._lock:
            return self._digests is None or namespace_digest(str(name)) in self._digests

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _read(self, connection: Plain) -> None:
        found = connection.execute("SELECT DISTINCT namespace FROM events LIMIT %s", (MAX_NAMESPACES,)).fetchall()
        digests = {namespace_digest(name) for (name,) in found}
        with self._lock:
            self._digests = digests if len(digests) < MAX_NAMESPACES else None

    def _hear(self, number: int, digests: Collection[str]) -> None:
        with self._lock:
            if self._digests is not None:
                self._digests.update(digests)
            if not digests or len(self._digests or ()) >= MAX_NAMESPACES:
                self._digests = None

    def _lose(self) -> None:
        with self._lock:
            self._digests = None
