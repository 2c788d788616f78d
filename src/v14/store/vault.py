"""The keys of one encrypted store, opened with the operator's master key.

    master key     the operator's, never on disk here; wraps
    store keys     in the catalog, numbered; the newest seals columns of the catalog and wraps
    data keys      one for each segment, in its metadata; seals its records

So another master key is one small transaction (`rotated`), whatever the size of the store: it wraps the store keys
anew and adds one, with which everything new is sealed. What was sealed before stays readable with the older ones.
"""

import base64
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from v14.errors import StoreKeyError, TraceCorruptError
from v14.store.seal import KEY_BYTES, Cipher, MasterKey, context, new_data_key

NUMBER_BYTES = 4

KEYS = "CREATE TABLE keys (number INTEGER PRIMARY KEY, master TEXT NOT NULL, wrapped BLOB NOT NULL)"


@dataclass(frozen=True, kw_only=True)
class StoreKey:
    """One store key as the catalog has it: its number, the id of the master key that wraps it, and itself, wrapped."""

    number: int
    master: str
    wrapped: bytes


def read_keys(reader: sqlite3.Connection) -> list[StoreKey]:
    """The store keys in an embedded catalog, by number."""
    found = reader.execute("SELECT number, master, wrapped FROM keys ORDER BY number")
    return [StoreKey(number=number, master=master, wrapped=wrapped) for number, master, wrapped in found]


class Vault:
    """Seals with the newest store key, opens with every one. Safe for several threads."""

    def __init__(self, weights_id: str, keys: Mapping[int, bytes]) -> None:
        self._weights_id, self._secrets = weights_id, dict(keys)
        self._ciphers = {number: Cipher(secret) for number, secret in keys.items()}
        self._newest = max(keys)

    @classmethod
    def open(cls, weights_id: str, stored: Iterable[StoreKey], master: MasterKey | None) -> "Vault | None":
        """The vault of a store that has these keys; None for a store without any. Raises `StoreKeyError`."""
        stored = list(stored)
        if not stored:
            return None
        ids = sorted({key.master for key in stored})
        if master is None:
            raise StoreKeyError(
                f"the store of {weights_id} is encrypted with the key {', '.join(ids)}; give that in "
                "SGLANG_V14_KEY_FILE, SGLANG_V14_KEY or SGLANG_V14_KEY_COMMAND. Nothing in it was touched."
            )
        if ids != [master.id]:
            raise StoreKeyError(
                f"the store of {weights_id} is encrypted with the key {', '.join(ids)}, not with {master.id} from "
                f"{master.source}. Give the right one; nothing in it was touched."
            )
        return cls(weights_id, {key.number: _unwrapped(key, weights_id, master) for key in stored})

    @classmethod
    def new(cls, weights_id: str) -> "Vault":
        """A vault with one store key, for a store that was not encrypted until now."""
        return cls(weights_id, {1: new_data_key()})

    def rotated(self) -> "Vault":
        """This vault with one more store key, which seals from now on."""
        return Vault(self._weights_id, self._secrets | {self._newest + 1: new_data_key()})

    def stored(self, master: MasterKey) -> list[StoreKey]:
        """The store keys as the catalog is to have them, wrapped by `master`."""
        return [
            StoreKey(number=number, master=master.id, wrapped=master.wrap(secret, self._weights_id, str(number)))
            for number, secret in self._secrets.items()
        ]

    def seal(self, data: bytes, *what: object) -> bytes:
        """The number of the store key and a record of `what`, which belongs to this store alone."""
        record = self._ciphers[self._newest].seal(data, context(self._weights_id, *what))
        return self._newest.to_bytes(NUMBER_BYTES, "little") + record

    def open_record(self, sealed: bytes, *what: object) -> bytes:
        """The inverse. Raises `TraceCorruptError`, and `StoreKeyError` for a store key that came after this vault."""
        number = int.from_bytes(sealed[:NUMBER_BYTES], "little")
        if number not in self._ciphers:
            raise StoreKeyError(
                f"store key {number} is not among those that the store had when it was opened; open it again"
            )
        return self._ciphers[number].open(sealed[NUMBER_BYTES:], context(self._weights_id, *what))

    def new_segment_key(self) -> tuple[str, Cipher]:
        """A data key for a segment: what its metadata says of it, and its cipher."""
        data_key = new_data_key()
        return base64.b64encode(self.seal(data_key, "segment")).decode(), Cipher(data_key)

    def segment_cipher(self, stated: object) -> Cipher:
        """The cipher of a segment by what its metadata says. Raises `TraceCorruptError`."""
        try:
            if not isinstance(stated, str):
                raise TypeError(f"{type(stated).__name__} is no key")
            record = base64.b64decode(stated, validate=True)
        except (TypeError, ValueError) as error:
            raise TraceCorruptError(f"a segment does not state its key ({error})") from error
        data_key = self.open_record(record, "segment")
        if len(data_key) != KEY_BYTES:
            raise TraceCorruptError(f"a segment states a key of {len(data_key)} bytes")
        return Cipher(data_key)


def _unwrapped(key: StoreKey, weights_id: str, master: MasterKey) -> bytes:
    return master.unwrap(key.wrapped, weights_id, str(key.number))
