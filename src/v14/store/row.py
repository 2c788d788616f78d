"""An event as the catalog holds it, and the way there and back."""

import base64
import binascii
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from v14.codecs.form import Form
from v14.errors import StoreKeyError, TraceCorruptError
from v14.store.pending import Key
from v14.store.spec import DTYPES, Part, Spec
from v14.store.vault import Vault
from v14.types import Event

MAX_SIZE = 1 << 24
"""Of one dimension: far above every model, and products of four stay integers that are quick to compare."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Fields are the columns of the table `events`, in order.

    `token_ids` are little-endian int64, `shape` and `engram` are JSON (see `_engram_json`; `engram` is empty where none
    was kept), times are Unix seconds (`recalled_at` 0.0: never). `codec` says how the trace is written in its segment;
    empty is as it was computed.
    """

    namespace: str
    id: str
    parent: str
    chat_id: str
    role: str
    said_at: float
    token_ids: bytes
    num_tokens: int
    closing_len: int
    segment: str
    dtype: str
    shape: str
    digests: bytes
    stored_at: float
    recalled_at: float = 0.0
    corrupt: int = 0
    engram: str = ""
    codec: str = ""

    @classmethod
    def of(
        cls, event: Event, spec: Spec, segment: str, *,
        stored_at: float, recalled_at: float, vault: Vault | None = None,
    ) -> "Row":  # fmt: skip
        """The row of an event whose trace lies in `segment`; where that is sealed, so is what the row says of it."""
        token_ids, chat_id = struct.pack(f"<{event.num_tokens}q", *event.token_ids), event.chat_id
        if spec.form.sealed:
            token_ids, chat_id = _sealed(vault, event, token_ids)
        return cls(
            namespace=event.namespace,
            id=event.id,
            parent=event.parent,
            chat_id=chat_id,
            role=event.role,
            said_at=event.said_at,
            token_ids=token_ids,
            num_tokens=event.num_tokens,
            closing_len=event.closing_len,
            segment=segment,
            dtype=spec.dtype,
            shape=json.dumps(spec.shape),
            digests=spec.digests,
            stored_at=stored_at,
            recalled_at=recalled_at,
            engram=_engram_json(spec.engram),
            codec=spec.form.text,
        )

    @property
    def key(self) -> Key:
        """(namespace, id)."""
        return self.namespace, self.id

    @property
    def spec(self) -> Spec:
        """What the trace must be. Raises `TraceCorruptError` where the row does not say it."""
        try:
            return Spec(
                dtype=_known_dtype(self.dtype),
                shape=_shape(json.loads(self.shape), 4),
                digests=_bytes(self.digests),
                engram=_engram_parts(self.engram),
                form=Form.parse(self.codec),
            )
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise TraceCorruptError(f"the catalog does not say what the trace of {self.id} is ({error})") from error

    def event(self, vault: Vault | None = None) -> Event:
        """The event; its id is derived again, and a row that does not match its id raises `ValueError`.

        A sealed row needs the store's `vault`; without it `StoreKeyError` is raised.
        """
        try:
            return self._event(vault)
        except (TypeError, AttributeError, struct.error, OverflowError) as error:
            # SQLite keeps any type in any column.
            raise TraceCorruptError(f"the row of event {self.id} is damaged ({error})") from error

    def _event(self, vault: Vault | None) -> Event:
        token_ids, chat_id = self.token_ids, self.chat_id
        if Form.parse(self.codec).sealed:
            token_ids, chat_id = self._opened(vault)
        if len(token_ids) != 8 * self.num_tokens:
            raise ValueError(f"event {self.id} should have {self.num_tokens} tokens")
        return Event(
            namespace=self.namespace,
            chat_id=chat_id,
            role=self.role,
            said_at=self.said_at,
            token_ids=struct.unpack(f"<{self.num_tokens}q", token_ids),
            parent=self.parent,
            closing_len=self.closing_len,
            id=self.id,
        )

    def chat(self, vault: Vault | None = None) -> str:
        """The chat's id. Raises `StoreKeyError`, or `TraceCorruptError` where it does not decrypt."""
        return opened_chat(vault, self.key, self.chat_id) if Form.parse(self.codec).sealed else self.chat_id

    def _opened(self, vault: Vault | None) -> tuple[bytes, str]:
        return opened(vault, self.key, self.token_ids, self.chat_id)


def opened(vault: Vault | None, key: Key, token_ids: bytes, chat_id: str) -> tuple[bytes, str]:
    """Token ids and chat id of the sealed row of (namespace, id). Raises `StoreKeyError` or `TraceCorruptError`."""
    chat = opened_chat(vault, key, chat_id)
    assert vault is not None
    return vault.open_record(token_ids, *key, "token_ids"), chat


def opened_chat(vault: Vault | None, key: Key, chat_id: str) -> str:
    """The chat's id alone."""
    if vault is None:
        raise StoreKeyError(f"event {key[1]} is encrypted; set SGLANG_V14_KEY_FILE to its key")
    try:
        chat = base64.b64decode(chat_id, validate=True)
        return vault.open_record(chat, *key, "chat_id").decode()
    except (UnicodeDecodeError, binascii.Error, TypeError) as error:
        raise TraceCorruptError(f"event {key[1]} is not what was stored ({error})") from error


def _sealed(vault: Vault | None, event: Event, token_ids: bytes) -> tuple[bytes, str]:
    """Token ids and chat id as a sealed row has them; the latter in Base64, its column is text."""
    assert vault is not None
    of = event.namespace, event.id
    chat_id = vault.seal(event.chat_id.encode(), *of, "chat_id")
    return vault.seal(token_ids, *of, "token_ids"), base64.b64encode(chat_id).decode()


def _shape(value: object, num_dims: int | None = None) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(size) is int and 0 <= size <= MAX_SIZE for size in value):
        raise ValueError(f"{str(value)[:80]} is no shape")
    if num_dims is not None and len(value) != num_dims:
        raise ValueError(f"{value} is no shape of {num_dims} dimensions")
    return tuple(value)


def _bytes(value: object) -> bytes:
    """Bytes that are bytes: of a number, `bytes` would make as many zeros."""
    if not isinstance(value, bytes | memoryview):
        raise TypeError(f"{type(value).__name__} where bytes should be")
    return bytes(value)


def _known_dtype(name: str) -> str:
    if name not in DTYPES:
        raise ValueError(f"{str(name)[:80]!r} is none of {', '.join(DTYPES)}")
    return name


def _engram_json(parts: Mapping[str, Part] | None) -> str:
    """Field name to [dtype, shape, digest in hexadecimal]."""
    if parts is None:
        return ""
    return json.dumps({name: [part.dtype, part.shape, part.digest.hex()] for name, part in parts.items()})


def _engram_parts(text: str) -> Mapping[str, Part] | None:
    """The inverse of `_engram_json`."""
    if not text:
        return None
    return {
        name: Part(dtype=_known_dtype(dtype), shape=_shape(shape), digest=bytes.fromhex(digest))
        for name, (dtype, shape, digest) in json.loads(text).items()
    }
