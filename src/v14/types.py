"""The few things that every room passes around: frozen, and checked where they are made.

Shape letters used in this project:

    L  attention layers that hold KV     T  tokens of an event or span
    H  KV heads                          Q  tokens of a cue
    D  head dimension                    V  voters
    R  recurrent layers                  N  heads of a recurrent state
    K  key dimension of a state          P  value dimension of a state
    C  channels of a short convolution   W  tokens it sees
"""

import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

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

    @property
    def body(self) -> tuple[int, ...]:
        """The tokens without those that only close the turn."""
        return self.token_ids[: len(self.token_ids) - self.closing_len]


LinkKind = Literal["association", "supersedes"]
"""What a link says: source and target belong together, or source is the newer statement of what target said."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """A directed tie between two events of one namespace, by their ids; `weight` is above 0 and finite."""

    source: str
    target: str
    kind: LinkKind
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Check ends, kind and weight."""
        if not self.source or not self.target or self.source == self.target:
            raise ValueError(f"a link needs two different events, not {self.source!r} and {self.target!r}")
        if self.kind not in get_args(LinkKind):
            raise ValueError(f"a link is one of {', '.join(get_args(LinkKind))}, not {self.kind!r}")
        if not 0 < self.weight < math.inf:
            raise ValueError(f"the weight of a link is above 0 and finite, not {self.weight}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Engram:
    """What an event does to the recurrent states, S ↦ S·A + B head by head, in factors.

        A = decay · (I − erase_left · erase_rightᵀ)        B = write_values · write_keysᵀ

    decay: `[R, N]` fp32. erase_left, erase_right: `[R, N, K, r]`; r is 0 where A is a scalar (Mamba2).
    write_values: `[R, N, P, s]`, write_keys: `[R, N, K, s]`. tail: `[R, C, t]`, the last t <= W - 1 inputs of the short
    convolution; t is less only for an event shorter than that. Factors share one floating dtype. A stack without states
    (`conv`) has N = K = P = 0 and only a tail.
    """

    decay: torch.Tensor
    erase_left: torch.Tensor
    erase_right: torch.Tensor
    write_values: torch.Tensor
    write_keys: torch.Tensor
    tail: torch.Tensor

    def __post_init__(self) -> None:
        """Check that the shapes fit each other."""
        by_head, key_dim = self.decay.shape, self.write_keys.shape[2:3]
        fits = (
            self.decay.dim() == 2
            and self.erase_left.shape == self.erase_right.shape
            and self.erase_left.shape[:2] == self.write_keys.shape[:2] == self.write_values.shape[:2] == by_head
            and self.erase_left.shape[2:3] == key_dim
            and self.write_keys.shape[3:] == self.write_values.shape[3:]
            and self.tail.dim() == 3
            and self.tail.shape[0] == by_head[0]
        )
        if not fits:
            shapes = {name: tuple(tensor.shape) for name, tensor in self.tensors().items()}
            raise ValueError(f"the factors of an engram do not fit each other: {shapes}")

    def tensors(self) -> dict[str, torch.Tensor]:
        """All tensors by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors together."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors().values())


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """What an event left in the layers, on the CPU.

    keys, values: `[L, T, H, D]`, same floating dtype, contiguous. Keys are rotated as if the event began at position 0
    (see `v14.reinstate.rotation`). `engram` is None where the model has no recurrent layers or none was kept.
    """

    keys: torch.Tensor
    values: torch.Tensor
    engram: Engram | None = None

    def __post_init__(self) -> None:
        """Check shapes, dtypes and device."""
        if self.keys.dim() != 4 or self.keys.shape != self.values.shape:
            raise ValueError(
                f"keys {tuple(self.keys.shape)} and values {tuple(self.values.shape)} must be one [L, T, H, D]"
            )
        if self.keys.dtype != self.values.dtype or not self.keys.is_floating_point():
            raise ValueError(f"keys ({self.keys.dtype}) and values ({self.values.dtype}) must share a floating dtype")
        engram = {} if self.engram is None else self.engram.tensors()
        if any(tensor.device.type != "cpu" for tensor in (self.keys, self.values, *engram.values())):
            raise ValueError("a trace lives on the CPU; copy it off the device first")

    @property
    def num_tokens(self) -> int:
        """Number of tokens, T."""
        return int(self.keys.shape[1])

    @property
    def num_bytes(self) -> int:
        """Bytes of keys, values and engram together."""
        engram = 0 if self.engram is None else self.engram.num_bytes
        return 2 * self.keys.numel() * self.keys.element_size() + engram


@dataclass(frozen=True, kw_only=True, eq=False)
class Cue:
    """The queries of a prompt's new part at the voters.

    queries: `[V, Q, D]` fp32, rotated so that the new part's first token stands at position 0; the query of
    token t therefore stands at position t (a cue may hold only the last tokens of a long part). context_lse:
    `[V, Q]` fp32, natural log-sum-exp of the scaled scores of those queries over all keys that the prompt itself
    gives them.
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
    the plan is what it is, `why` of each event why it is there.
    """

    events: tuple[Event, ...] = ()
    why: tuple[str, ...] = ()
    votes: tuple[Vote, ...] = ()
    reason: str = ""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The span's token ids: the events' own, one after the other."""
        return tuple(token for event in self.events for token in event.token_ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class Span:
    """Reinstated events standing as tokens at `position`: `token_ids` of length T, keys and values `[L, T, H, D]`.

    `engrams` are those of the events, in order, to be applied to the recurrent states one after the other; empty where
    the model has none. An event whose engram was not kept leaves the states as they are and has None here.
    """

    position: int
    token_ids: tuple[int, ...]
    keys: torch.Tensor
    values: torch.Tensor
    engrams: tuple[Engram | None, ...] = ()
