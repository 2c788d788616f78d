"""The few things that every room passes around: frozen, and checked where they are made.

Shape letters used in this project:

    L  attention layers that hold KV     T  tokens of an event or span
    H  KV heads                          Q  tokens of a cue
    D  head dimension                    V  voters
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

MAX_EVENT_TOKENS = 128
ID_PREFIX = "sha256:"
ROOT_ID = ID_PREFIX + "0" * 64


def event_id(parent: str, body: Sequence[int]) -> str:
    """Content id of an event: SHA-256 over the id of what stood before it and its own body tokens.

    The same text behind the same text has the same id, whichever chat, time or namespace it stands in;
    reading a conversation again therefore stores nothing twice. Tokens that only close a turn are no part
    of the body (`Event.closing_len`), because a reply is stored before its closing tokens exist.
    """
    digest = hashlib.sha256(parent.encode())
    digest.update(struct.pack(f"<{len(body)}q", *body))
    return ID_PREFIX + digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Event:
    """At most 128 consecutive tokens that the model read or wrote in one turn.

    `parent` is the id of the text before it in its chat (`ROOT_ID` at the start), `said_at` is in Unix
    seconds, `closing_len` counts the trailing tokens that only close the turn.
    """

    namespace: str
    chat_id: str
    role: str
    said_at: float
    token_ids: tuple[int, ...]
    parent: str = ROOT_ID
    closing_len: int = 0
    id: str = field(default="")

    def __post_init__(self) -> None:
        """Check the length and derive the id; a given id must be the derived one."""
        if not 1 <= len(self.token_ids) <= MAX_EVENT_TOKENS:
            raise ValueError(f"an event has 1 to {MAX_EVENT_TOKENS} tokens, not {len(self.token_ids)}")
        if not 0 <= self.closing_len < len(self.token_ids):
            raise ValueError(f"closing_len {self.closing_len} leaves no body in {len(self.token_ids)} tokens")
        derived = event_id(self.parent, self.token_ids[: len(self.token_ids) - self.closing_len])
        if self.id and self.id != derived:
            raise ValueError(f"event id {self.id} does not match its content ({derived})")
        object.__setattr__(self, "id", derived)

    @property
    def num_tokens(self) -> int:
        """Number of tokens, closing tokens included."""
        return len(self.token_ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """What an event left in the attention layers, on the CPU.

    keys, values: `[L, T, H, D]`, same floating dtype, contiguous. Keys are rotated as if the event began at
    position 0 (see `v14.reinstate.rotation`).
    """

    keys: torch.Tensor
    values: torch.Tensor

    def __post_init__(self) -> None:
        """Check shapes, dtypes and device."""
        if self.keys.dim() != 4 or self.keys.shape != self.values.shape:
            raise ValueError(
                f"keys {tuple(self.keys.shape)} and values {tuple(self.values.shape)} must be one [L, T, H, D]"
            )
        if self.keys.dtype != self.values.dtype or not self.keys.is_floating_point():
            raise ValueError(f"keys ({self.keys.dtype}) and values ({self.values.dtype}) must share a floating dtype")
        if self.keys.device.type != "cpu" or self.values.device.type != "cpu":
            raise ValueError("a trace lives on the CPU; copy it off the device first")

    @property
    def num_tokens(self) -> int:
        """Number of tokens, T."""
        return int(self.keys.shape[1])

    @property
    def num_bytes(self) -> int:
        """Bytes of keys and values together."""
        return 2 * self.keys.numel() * self.keys.element_size()


@dataclass(frozen=True, kw_only=True, eq=False)
class Cue:
    """The queries of a prompt's new part at the voters.

    queries: `[V, Q, D]` fp32, rotated so that the new part's first token stands at position 0; the query of
    token t therefore stands at position t. `first_position` is the position of the first query kept (a cue
    may hold only the last tokens of a long part). context_lse: `[V, Q]` fp32, natural log-sum-exp of the scaled
    scores of those queries over all keys that the prompt itself gives them.
    """

    queries: torch.Tensor
    context_lse: torch.Tensor

    def __post_init__(self) -> None:
        """Check shapes."""
        if self.queries.dim() != 3 or self.context_lse.shape != self.queries.shape[:2]:
            raise ValueError(
                f"queries {tuple(self.queries.shape)} need context_lse {tuple(self.context_lse.shape)} = [V, Q]"
            )


@dataclass(frozen=True, kw_only=True)
class Vote:
    """How strongly one event was asked for: `value` is the calibrated attention share (see `v14.recall.votes`)."""

    event_id: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The events to reinstate for one request, in the order of the span, with the votes behind the decision.

    `votes` are the best votes of the namespace, strongest first, recalled or not; `reason` says in words why
    the plan is what it is.
    """

    events: tuple[Event, ...] = ()
    votes: tuple[Vote, ...] = ()
    reason: str = ""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The span's token ids: the events' own, one after the other."""
        return tuple(token for event in self.events for token in event.token_ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class Span:
    """Reinstated events standing as tokens at `position`: `token_ids` of length T, keys and values `[L, T, H, D]`."""

    position: int
    token_ids: tuple[int, ...]
    keys: torch.Tensor
    values: torch.Tensor
