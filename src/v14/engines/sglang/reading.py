"""How one request is read: its real tokens, the spans between them, and what was seen of its cue so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from v14.engines.sglang.recording import Recording
from v14.engines.sglang.ticket import Ticket
from v14.events.cut import Cut
from v14.memory import Session
from v14.reinstate.cost import Way
from v14.reinstate.layout import Layout, SpannedSequence
from v14.reinstate.transcripts import Placement
from v14.types import Cue, Plan

FIRST_LOOK = 32
"""Accepted tokens after which a request first looks again; from there on the interval doubles."""


@dataclass(kw_only=True)
class Later:
    """What a request may recall while it decodes (`decoding.py`).

    `arrived` is the engine's request as it came. It looks next when `next_at` tokens are accepted; the last look was at
    `looked_at`. `plan` is what a look recalls, until the request is read again behind it; `told` is what the client is
    told of such recalls.
    """

    arrived: Any
    next_at: int = FIRST_LOOK
    looked_at: int = 0
    plan: Plan | None = None
    told: list[dict[str, Any]] = field(default_factory=list)


@dataclass(kw_only=True)
class Reading:
    """The memory's record of one request in the scheduler.

    `token_ids` are the client's own; `sequence` is what the engine reads. While the request looks for what to recall,
    `original` is the engine's request as it came, and `queries[layer]` collects post-rotary queries `[n, heads, D]`
    from position `cue_start` of the sequence on, chunk by chunk; they become `cue`, on the CPU, which is there once
    the event `cue_copied` has passed (None: it is there). The plan (`is_planned`: it was tried) leaves a `report` for
    the client; if it brings something back, `again` is how the request is read the second time. `is_stopped` says that
    the first reading ended behind the last voter layer, so that nothing of it may be kept.

    `later` is there as long as it may recall something while it decodes. A reading that is only a look has the request
    that it looks for in `beside`, and in `span_at` the position of a later span, where that is placed behind states.

    `recording` holds what is wanted of recurrent states, `way` how its spans come back; both are decided when the
    request is first matched. `erased` are the events (namespace, id) because of which it is being ended.
    """

    ticket: Ticket
    session: Session
    token_ids: tuple[int, ...]
    layout: Layout
    placements: tuple[Placement, ...]
    sequence: SpannedSequence
    queries: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    cue: Cue | None = None
    cue_copied: Any = None
    is_stored: bool = False
    erased: set[tuple[str, str]] = field(default_factory=set)
    recording: Recording | None = None
    way: Way | None = None
    original: Any = None
    again: "Reading | None" = None
    report: dict[str, Any] | None = None
    is_planned: bool = False
    is_stopped: bool = False
    later: Later | None = None
    beside: Any = None
    span_at: int | None = None

    @property
    def is_looking(self) -> bool:
        """Whether it is still open what the request recalls."""
        return self.original is not None

    def new_events(self, token_ids: Sequence[int]) -> list[Cut]:
        """The events of its token ids, and of what was written behind them, that are not stored yet."""
        if self.ticket.told:
            return self.session.new(self.ticket.cuts(token_ids))
        return self.session.unknown(token_ids, self.ticket.chat_id)

    @property
    def new_position(self) -> int:
        """Position in the sequence of the new part's first token."""
        return self.sequence.positions[self.layout.new_start] if self.sequence.positions else 0

    def cue_start(self, cue_tokens: int) -> int:
        """Position in the sequence of the first token whose query belongs to the cue."""
        return max(self.new_position, len(self.sequence.token_ids) - cue_tokens)
