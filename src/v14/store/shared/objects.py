"""Blobs as objects of an S3-compatible store, read by byte range."""

import os
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import obstore
import torch
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import ObjectStore, S3Store
from safetensors.torch import save

from v14.errors import StoreUnavailableError, StoreVersionError, TraceCorruptError
from v14.home import SharedHome
from v14.store.shared.pause import Pause

if TYPE_CHECKING:
    from obstore.store import S3Config

MARKER = "store"
"""Name of an object that is there as long as the store is: a segment that is missing beside it is really missing."""


class Register(Protocol):
    """Who knows of every object, so that none is left behind."""

    def announce(self, segment: str, num_bytes: int) -> None:
        """An object is about to be written."""

    def deleted(self, names: Sequence[str]) -> None:
        """Objects are gone."""

    def segment_bytes(self) -> int:
        """Bytes of all objects together."""


UNSATISFIABLE = "416 Range Not Satisfiable"
"""What HTTP says where a range begins behind the end of an object."""

COALESCE_BYTES = 256 << 10
"""Ranges closer than this are read in one request: about what a store sends in the time that a request takes."""


def connect(home: SharedHome, directory: str) -> S3Store:
    """The objects below `directory` of a home; nothing is asked yet. Credentials are those of the AWS variables."""
    endpoint = home.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    config: S3Config = {}
    if endpoint:
        config["endpoint"] = endpoint
    if home.region:
        config["region"] = home.region
    return S3Store(
        home.bucket,
        prefix="/".join(filter(None, (home.prefix, directory))),
        config=config,
        client_options={"timeout": "30s", "connect_timeout": "3s", "allow_http": endpoint.startswith("http://")},
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=10)},
    )


class ObjectBlobs:
    """See `v14.store.foundation.Blobs`."""

    def __init__(self, store: ObjectStore, address: str, register: Register) -> None:
        """`address` is the URL of the objects, for messages."""
        self._store, self._address, self._register = store, address, register
        self._pause = Pause()

    @property
    def num_bytes(self) -> int:
        """Bytes of all objects that rows name."""
        return self._register.segment_bytes()

    def where(self, name: str) -> str:
        """The object's URL."""
        return f"{self._address}/{name}"

    def claim(self, identity: str) -> None:
        """Write the marker, or check that it is this store's: another one would collect its objects.

        Raises `StoreUnavailableError`, and `StoreVersionError` for the objects of another store.
        """
        with self._errors(MARKER):
            try:
                stated = bytes(obstore.get(self._store, MARKER).bytes()).decode(errors="replace")
            except (FileNotFoundError, NotFoundError):
                stated = identity
            # Also proves that the bucket can be written.
            if stated == identity:
                obstore.put(self._store, MARKER, identity.encode())
        if stated != identity:
            raise StoreVersionError(
                f"{self._address} holds the segments of another store ({stated[:40]}, expected {identity}). "
                "Give every database a prefix of its own."
            )

    def write(self, name: str, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
        """Write an object, announced first. Raises `StoreError`."""
        data = save(dict(tensors), dict(metadata))
        self._register.announce(name, len(data))
        with self._errors(name):
            obstore.put(self._store, name, data)

    def read(self, name: str, ranges: Sequence[tuple[int, int]]) -> Sequence[memoryview]:
        """Byte ranges of an object; neighbours are asked for together. Raises as the contract says."""
        self._pause.check()
        spans = merged(ranges)
        try:
            with self._errors(name):
                # Each span by itself: obstore panics on an object that ends before one of the ranges that it merges.
                parts = obstore.get_ranges(
                    self._store, name, starts=[span[0] for span in spans], ends=[span[1] for span in spans], coalesce=0
                )
        except StoreUnavailableError as error:
            gone = isinstance(error.__cause__, FileNotFoundError | NotFoundError) and self._is_there(MARKER)
            if gone or UNSATISFIABLE in str(error):
                raise TraceCorruptError(f"{error} It is missing or damaged; its events are set aside") from error
            self._pause.failed()
            raise
        self._pause.answered()
        return [_piece(start, end, spans, parts) for start, end in ranges]

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects. Raises `StoreError`."""
        names = sorted(names)
        if names:
            with self._errors(names[0]):
                obstore.delete(self._store, names)
            self._register.deleted(names)

    def list(self) -> Mapping[str, int]:
        """Bytes by name. Raises `StoreUnavailableError`."""
        return {name: num_bytes for name, num_bytes, _ in self._all()}

    def older_than(self, age_s: float) -> set[str]:
        """Names of the objects written over `age_s` seconds ago. Raises `StoreUnavailableError`."""
        latest = datetime.now(UTC) - timedelta(seconds=age_s)
        return {name for name, _, written_at in self._all() if written_at <= latest}

    def close(self) -> None:
        """Nothing is held open."""

    def _all(self) -> Iterator[tuple[str, int, datetime]]:
        with self._errors(""):
            for page in obstore.list(self._store):
                yield from (
                    (meta["path"], meta["size"], meta["last_modified"]) for meta in page if meta["path"] != MARKER
                )

    def _is_there(self, name: str) -> bool:
        try:
            with self._errors(name):
                obstore.head(self._store, name)
        except StoreUnavailableError:
            return False
        return True

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            line = str(error).split("\n\nDebug source")[0]
            raise StoreUnavailableError(
                f"{self.where(name)} is not to be had: {' '.join(line.split())}; it is asked again later"
            ) from error


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges to ask for, in order: those that are not empty, and neighbours as one."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted(one for one in ranges if one[0] < one[1]):
        if spans and start <= spans[-1][1] + COALESCE_BYTES:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((start, end))
    return spans


def _piece(start: int, end: int, spans: Sequence[tuple[int, int]], parts: Sequence[obstore.Bytes]) -> memoryview:
    """A range out of what was read of the span that holds it, cut short where the object ends."""
    if start >= end:
        return memoryview(b"")
    place = bisect_right(spans, (start, sys.maxsize)) - 1
    first = spans[place][0]
    return memoryview(parts[place])[start - first : end - first]
