"""Mending a store that no server runs on: rows that are set aside dropped, a catalog made again from the segments."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from v14.errors import StoreError, StoreKeyError, TraceCorruptError
from v14.store.catalog import Catalog
from v14.store.core import CoreStore
from v14.store.files import FileBlobs
from v14.store.foundation import open_vault
from v14.store.header import read_header
from v14.store.layout import SEGMENT_SUFFIX, Layout
from v14.store.notes import read_note
from v14.store.row import Row
from v14.store.seal import MasterKey
from v14.store.segments import METADATA_KEY, NOTE, Segments, event_key
from v14.store.vault import StoreKey, read_keys
from v14.store.view import reading

DAMAGED_SUFFIX = ".damaged"


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """What a new catalog holds, and what the segments had that it does not: without a note, or not whole."""

    num_events: int
    num_without_note: int
    num_damaged: int


def drop_set_aside(store: CoreStore) -> int:
    """Erase the events that are set aside; how many. Said again, they are stored again. Raises `StoreError`."""
    by_namespace: dict[str, list[str]] = {}
    for namespace, event_id in store.set_aside():
        by_namespace.setdefault(namespace, []).append(event_id)
    return sum(store.forget(name, ids, selection="set-aside") for name, ids in by_namespace.items())


def rebuild(home: Path, weights_id: str, master: MasterKey | None) -> Rebuilt:
    """Make the catalog of a store again from the notes in its segments; the old one is kept beside it.

    Lost are the times at which events were said again or recalled, links, policies and the audit. An encrypted store
    needs the keys in the old catalog, which must still be readable. Raises `StoreError`, and `StoreKeyError`.
    """
    layout = Layout.of(home, weights_id)
    if not layout.segments.is_dir():
        raise StoreError(f"there is no store of {weights_id} in {home}; set SGLANG_V14_MEMORY_HOME to where it lies")
    descriptor = layout.acquire()
    try:
        keys = _keys(layout)
        _put_aside(layout)
        layout.make()
        with closing(Catalog(layout.catalog, weights_id)) as catalog:
            if keys:
                catalog.set_keys(keys, was=())
            segments = Segments(FileBlobs(layout.segments), weights_id, open_vault(catalog, weights_id, master))
            return _fill(catalog, segments)
    finally:
        os.close(descriptor)


def _fill(catalog: Catalog, segments: Segments) -> Rebuilt:
    num_events = num_without = num_damaged = 0
    for name in sorted(segments.blobs.list()):
        if not name.endswith(SEGMENT_SUFFIX):
            continue
        try:
            header = read_header(segments.blobs, name)
        except TraceCorruptError:
            num_damaged += 1
            continue
        events = {event_key(tensor_name) for tensor_name in header.places}
        noted = [tensor_name for tensor_name in header.places if tensor_name.endswith(f".{NOTE}")]
        rows = list(_rows(segments, name, noted))
        catalog.commit(rows, {})
        num_events += len(rows)
        num_without += len(events) - len(noted)
        num_damaged += len(noted) - len(rows)
    return Rebuilt(num_events=num_events, num_without_note=num_without, num_damaged=num_damaged)


def _rows(segments: Segments, name: str, noted: list[str]) -> Iterator[Row]:
    """The rows of the notes of a segment whose traces are whole."""
    header = read_header(segments.blobs, name)
    for tensor_name in noted:
        place = header.places[tensor_name]
        try:
            [data] = segments.blobs.read(name, [(place.start, place.end)])
            row = read_note(bytes(data), name)
            if row.key == event_key(tensor_name):
                segments.read(name, row.key, row.spec)
                yield row
        except TraceCorruptError:
            continue


def _keys(layout: Layout) -> list[StoreKey]:
    """The keys of an encrypted store, out of what is left of its catalog. Raises `StoreKeyError`."""
    try:
        with reading(layout) as (reader, _):
            return read_keys(reader)
    except StoreError as error:
        if any(_is_sealed(FileBlobs(layout.segments), path.name) for path in layout.segments.iterdir()):
            raise StoreKeyError(
                f"{layout.catalog} cannot be read and held the keys of this encrypted store; put it back from a copy"
            ) from error
        return []


def _is_sealed(blobs: FileBlobs, name: str) -> bool:
    try:
        return '"key"' in read_header(blobs, name).metadata.get(METADATA_KEY, "")
    except TraceCorruptError:
        return False


def _put_aside(layout: Layout) -> None:
    for suffix in ("", "-wal", "-shm"):
        path = layout.catalog.with_name(layout.catalog.name + suffix)
        aside = path.with_name(path.name + DAMAGED_SUFFIX)
        if aside.exists():
            raise StoreError(f"{aside} is there from an earlier repair; look at it and delete it first")
        if path.exists():
            path.rename(aside)
