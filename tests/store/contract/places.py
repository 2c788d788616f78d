"""The places that a store can lie in, and what a test does to them from outside."""

import contextlib
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.shared_servers import BUCKET, Cable
from tests.store.making import WEIGHTS
from v14.home import Home, SharedHome
from v14.store.core import CoreStore
from v14.store.directory import DirectoryStore
from v14.store.layout import Layout


class Embedded:
    """A directory."""

    def __init__(self, tmp_path: Path) -> None:
        self.home: Home = tmp_path
        self.weights_id = WEIGHTS
        self._layout = Layout.of(tmp_path, WEIGHTS)

    def open(self, **options: Any) -> CoreStore:
        return DirectoryStore.open(self._layout.root.parent, self.weights_id, **({"retry_s": 0.01} | options))

    def segments(self) -> Mapping[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self._layout.segments.iterdir())}

    def replace(self, name: str, content: bytes | None) -> None:
        """Change a segment behind the store's back; None deletes it."""
        path = self._layout.segment(name)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)

    def alter(self, token_ids: bytes, said_at: float) -> None:
        """Change the token ids of the events said at a time, behind the store's back."""
        with contextlib.closing(sqlite3.connect(self._layout.catalog)) as connection, connection:
            connection.execute("UPDATE events SET token_ids = ? WHERE said_at = ?", (token_ids, said_at))

    @contextmanager
    def broken(self) -> Iterator[None]:
        """Nothing can be written."""

        def refuse(*_: object) -> None:
            raise OSError(28, os.strerror(28))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", refuse)
            yield

    def close(self) -> None:
        pass


class Shared:
    """A schema of a database and a prefix of a bucket, reached by a cable to each."""

    def __init__(self, postgres: int, objects: int) -> None:
        self.weights_id = f"sha256:{uuid.uuid4().hex}"
        self.postgres, self.objects = Cable(postgres), Cable(objects)
        self.home = SharedHome.parse(
            f"postgresql://v14@127.0.0.1:{self.postgres.port}/postgres?"
            f"segments=s3://{BUCKET}/some/where&endpoint=http://127.0.0.1:{self.objects.port}"
        )

    def open(self, **options: Any) -> CoreStore:
        from v14.store.shared.store import SharedStore

        options.pop("fsync", None)
        return SharedStore.open(self.home, self.weights_id, **({"retry_s": 0.01} | options))

    def segments(self) -> Mapping[str, bytes]:
        import obstore

        from v14.store.shared.objects import MARKER

        objects = self._objects()
        names = sorted(meta["path"] for page in obstore.list(objects) for meta in page)
        found = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # deleted since
                found[name] = bytes(obstore.get(objects, name).bytes())
        return {name: data for name, data in found.items() if name != MARKER}

    def replace(self, name: str, content: bytes | None) -> None:
        """Change an object behind the store's back; None deletes it."""
        import obstore

        if content is None:
            obstore.delete(self._objects(), name)
        else:
            obstore.put(self._objects(), name, content)

    def sql(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a statement on the catalog."""
        from v14.store.shared.connection import connect
        from v14.store.shared.schema import schema_of

        with connect(self.home.conninfo, schema_of(self.weights_id)) as connection:
            cursor = connection.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def alter(self, token_ids: bytes, said_at: float) -> None:
        """Change the token ids of the events said at a time, behind the store's back."""
        self.sql("UPDATE events SET token_ids = %s WHERE said_at = %s", (token_ids, said_at))

    @contextmanager
    def broken(self) -> Iterator[None]:
        """Nothing can be written."""
        self.objects.cut()
        try:
            yield
        finally:
            self.objects.mend()

    def close(self) -> None:
        self.postgres.close()
        self.objects.close()

    def _objects(self) -> Any:
        from v14.store.shared.objects import connect
        from v14.store.shared.schema import schema_of

        return connect(self.home, schema_of(self.weights_id))


Place = Embedded | Shared
