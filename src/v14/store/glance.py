"""Looking at a store that another process writes: read-only, no lock."""

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from v14.errors import StoreError
from v14.store.layout import Layout


def namespaces_on_disk(home: Path, weights_id: str) -> Mapping[str, int]:
    """Committed events by namespace of the store of `weights_id` under `home`; empty where there is none.

    Raises `StoreError` when there is a catalog and it cannot be read.
    """
    catalog = Layout.of(home, weights_id).catalog
    if not catalog.is_file():
        return {}
    try:
        with contextlib.closing(sqlite3.connect(f"{catalog.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            query = "SELECT namespace, COUNT(*) FROM events WHERE NOT corrupt GROUP BY namespace"
            return dict(connection.execute(query).fetchall())
    except sqlite3.Error as error:
        raise StoreError(f"{catalog} cannot be read: {error}") from error
