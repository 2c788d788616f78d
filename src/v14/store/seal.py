"""Sealing: AES-256-GCM (NIST SP 800-38D) through `cryptography`, the optional extra `encryption`.

A *master key* is the operator's and never on disk here. It wraps *data keys*: one for each segment and one for the
catalog's columns, 32 random bytes each. A data key seals records, each with 96 random bits of nonce, which is safe for
2^32 records a key. What a record is of (weights, namespace, event, which part, its shape) is authenticated with it, so
that a record put in another's place does not open.

    sealed record    nonce, 12 bytes | ciphertext, as long as the text | tag, 16 bytes
"""

import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import Any

from v14.errors import StoreKeyError, TraceCorruptError

KEY_BYTES = 32
NONCE_BYTES = 12
OVERHEAD_BYTES = NONCE_BYTES + 16


def context(*parts: object) -> bytes:
    """What a record is of, as bytes: no two lists of parts give the same."""
    return json.dumps(["v14", *parts]).encode()


class Cipher:
    """Seals and opens records with one data key. Safe for several threads."""

    def __init__(self, data_key: bytes) -> None:
        self._aead = _aead(data_key)

    def seal(self, data: Any, what: bytes) -> bytes:
        """`data` (anything with a buffer) as a sealed record of `what` (`context`)."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + bytes(self._aead.encrypt(nonce, data, what))

    def open(self, record: Any, what: bytes) -> bytes:
        """The inverse. Raises `TraceCorruptError` where the record is damaged or of something else."""
        from cryptography.exceptions import InvalidTag

        view = memoryview(record)
        if view.nbytes < OVERHEAD_BYTES:
            raise TraceCorruptError(f"a sealed record of {view.nbytes} bytes is too short")
        try:
            return bytes(self._aead.decrypt(view[:NONCE_BYTES], view[NONCE_BYTES:], what))
        except InvalidTag as error:
            raise TraceCorruptError(f"a sealed record does not open as {what.decode()}") from error


@dataclass(frozen=True, kw_only=True)
class MasterKey:
    """The operator's key. `source` says where it came from, for messages; `id` names it and does not give it away."""

    source: str
    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """16 hexadecimal digits of a hash: the key has 256 random bits, so that nothing can be guessed from them."""
        return hashlib.sha256(b"v14 master key" + self.secret).hexdigest()[:16]

    def wrap(self, data_key: bytes, weights_id: str, name: str) -> bytes:
        """A data key sealed for the store of `weights_id`, where it is called `name`."""
        return Cipher(self.secret).seal(data_key, context("data key", weights_id, name))

    def unwrap(self, wrapped: bytes, weights_id: str, name: str) -> bytes:
        """The inverse. Raises `StoreKeyError` where this is not the key that wrapped it, or it is damaged."""
        try:
            return Cipher(self.secret).open(wrapped, context("data key", weights_id, name))
        except TraceCorruptError as error:
            raise StoreKeyError(f"the key {self.id} from {self.source} does not open data key {name!r}") from error


def new_data_key() -> bytes:
    """32 random bytes."""
    return os.urandom(KEY_BYTES)


def _aead(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise StoreKeyError(
            "encryption at rest needs the package cryptography; install it with `pip install 'sglang-v14[encryption]'`"
        ) from error
    return AESGCM(key)
