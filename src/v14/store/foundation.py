"""What a store stands on: a catalog of rows, and blobs in which segments lie. `core.py` builds the store on the two.

catalog    embedded: SQLite, one file (`catalog.py`, `sqlite.py`, `schema.py`)
blobs      embedded: files of one directory (`files.py`)
"""

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import torch

from v14.errors import StoreError
from v14.store.audit import Record
from v14.store.changes import Changed
from v14.store.glance import GlanceRow
from v14.store.links import LinkChange, LinkKey
from v14.store.pending import Key, Renewal
from v14.store.policies import Policy
from v14.store.row import Row
from v14.store.seal import MasterKey
from v14.store.vault import StoreKey, Vault


class CatalogContract(Protocol):
    """The rows of one store. Safe for several threads; every call raises `StoreError` where it cannot be answered."""

    def row(self, key: Key, *, corrupt: bool = False) -> Row | None:
        """The row of an event, or None; of one set aside only where `corrupt`."""

    def rows(self, namespace: str) -> Sequence[Row]:
        """Rows of a namespace that are not set aside, in the order of their commits."""

    def glances(self, namespace: str) -> Sequence[GlanceRow]:
        """A few columns of the same rows, in the same order."""

    def all_keys(self) -> Sequence[Key]:
        """Keys of all rows, those set aside included."""

    def known(self, keys: Iterable[Key]) -> set[Key]:
        """Those of `keys` that have a row which is not set aside."""

    def counts(self, without: Collection[Key]) -> Mapping[str, tuple[int, int]]:
        """Events and tokens by namespace; rows of the keys `without` are not counted, nor those set aside."""

    def num_corrupt(self) -> int:
        """Number of events set aside."""

    def changes(self, namespace: str, since: int) -> Changed:
        """What changed in a namespace since number `since`, that of an earlier call; 0 is before everything.

        Where one process writes, what it put after `since` need not be told: it has put it itself.
        """

    def segments(self) -> set[str]:
        """Names of the segments that any row names."""

    def links(self, namespace: str) -> Mapping[LinkKey, float]:
        """Weights of the links of a namespace."""

    def policies(self) -> Mapping[str, Policy]:
        """Policies by namespace; most namespaces have none."""

    def keys(self) -> Sequence[StoreKey]:
        """The store keys, wrapped; empty for a store that is not encrypted."""

    def set_keys(self, keys: Iterable[StoreKey], *, was: Sequence[StoreKey]) -> None:
        """Replace the store keys, all or none, durably, if they still are those that they `was`."""

    def audit(self) -> Sequence[Record]:
        """The audit record, oldest first."""

    def commit(
        self, rows: Iterable[Row], renewals: Mapping[Key, Renewal], links: Mapping[LinkKey, LinkChange] | None = None
    ) -> None:
        """Insert or replace rows, renew times, change links: all or nothing, durably."""

    def forget(self, keys: Collection[Key], moved: Iterable[Row], records: Iterable[Record]) -> None:
        """Delete rows and their links, update `segment` and `corrupt` of `moved` rows, note it: all or nothing.

        A chat whose id is that of a deleted event gets another one.
        """

    def least_asked(self, namespace: str | None, max_rows: int = -1) -> Sequence[Row]:
        """Rows of a namespace or of all, those first that were neither said nor recalled for the longest."""

    def rewritable(self, idle_before: float, idle_form: str, *, unsealed: bool) -> set[str]:
        """Segments with events that were neither said nor recalled since `idle_before` and are not in `idle_form`, or
        with `unsealed` ones. Traces of which only voters' keys were kept stay in their form."""

    def move(self, rows: Iterable[Row], *, was: Mapping[Key, str]) -> None:
        """Let rows name traces that were written anew: all, or, where one names another segment than `was` by now,
        none."""

    def erasing(self) -> AbstractContextManager[None]:
        """Within it, nobody else erases: what is read of segments stays true. Raises `StoreError`."""

    def select(self, namespace: str, until: float) -> Mapping[str, float]:
        """`said_at` by id of rows last said before `until`, those set aside included."""

    def in_segment(self, segment: str) -> Sequence[Row]:
        """All rows whose traces lie in a segment, those set aside included."""

    def scrub(self, needles: Collection[bytes] | None) -> None:
        """Leave no copy of deleted content behind; `needles` are what must not be found, None is anything."""

    def finish(self, at: float) -> None:
        """Set `finished_at` of every record that has none."""

    def finished(self) -> bool:
        """Whether every record has a `finished_at`."""

    def set_policy(self, namespace: str, policy: Policy) -> None:
        """Replace the policy of a namespace."""

    def mark(self, row: Row, *, corrupt: bool) -> None:
        """Set an event aside or take it back, unless it was stored anew meanwhile."""

    def close(self) -> None:
        """Close; further calls raise `StoreError`."""


class Blobs(Protocol):
    """Named runs of bytes, each written whole and then never changed. Safe for several threads."""

    @property
    def num_bytes(self) -> int:
        """Bytes of all blobs together."""

    def where(self, name: str) -> str:
        """A blob's address, for messages."""

    def write(self, name: str, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
        """Write a safetensors file, durably: whole and under its name, or not at all. Raises `OSError`."""

    def read(self, name: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        """Byte ranges [start, end), cut short where the blob ends, without reading the rest.

        Raises `TraceCorruptError` where the blob is missing or its medium broken, `StoreError` where it cannot be
        read just now.
        """

    def remove(self, names: Iterable[str]) -> None:
        """Delete blobs; names that are not there are passed over. Raises `OSError`."""

    def list(self) -> Mapping[str, int]:
        """Bytes by name. Raises `OSError`."""

    def close(self) -> None:
        """Let go of connections."""


def open_vault(catalog: CatalogContract, weights_id: str, master: MasterKey | None) -> Vault | None:
    """The keys of a store, made where a master key is given for one that has none. Raises `StoreKeyError`."""
    vault = Vault.open(weights_id, catalog.keys(), master)
    if vault is None and master is not None:
        # Another server that starts on a shared store may have been quicker: then its keys count.
        with contextlib.suppress(StoreError):
            catalog.set_keys(Vault.new(weights_id).stored(master), was=())
        vault = Vault.open(weights_id, catalog.keys(), master)
        if vault is None:
            raise StoreError(f"the store of {weights_id} cannot be written to: it got no keys; start again")
    return vault
