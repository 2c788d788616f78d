"""What the first of several ranks tells the others about a request, and the session that these have of it.

The other ranks have no store: whatever is looked up there comes with what they are told (`ranks.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from v14.memory import Memory, Session
from v14.reinstate.cost import Way
from v14.reinstate.layout import Layout, SpannedSequence, with_spans
from v14.reinstate.transcripts import Placement
from v14.types import Event


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How an arriving request is read first. `events` are those of `placements`; `looks`: for what to recall."""

    layout: Layout
    placements: tuple[Placement, ...]
    events: tuple[Event, ...]
    looks: bool


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a request's plan comes to: what its client is told and, if it is read again, the placements and events."""

    report: dict[str, Any]
    placements: tuple[Placement, ...] = ()
    events: tuple[Event, ...] = field(default=())

    @property
    def recalls(self) -> bool:
        """Whether it is to be read again."""
        return bool(self.placements)


OPENING = TypeAdapter(Opening)
DECISION = TypeAdapter(Decision)
EVENTS = TypeAdapter(tuple[Event, ...])
RUNS = TypeAdapter(list[tuple[int, int]])
IDS = TypeAdapter(list[str])
COUNT = TypeAdapter(int)
FLAG = TypeAdapter(bool)
WAY: TypeAdapter[Way] = TypeAdapter(Way)


class ToldSession(Session):
    """The session of a rank that is told everything: it knows the events that it was told of, and notes nothing."""

    def __init__(self, memory: Memory, namespace: str, shared: Sequence[str] = (), request_id: str = "") -> None:
        super().__init__(memory, namespace, shared, request_id)
        self._told: dict[str, Event] = {}

    def learn(self, events: Iterable[Event]) -> None:
        """Take up events of which the first rank spoke."""
        self._told.update({event.id: event for event in events})

    def events(self, placement: Placement) -> Sequence[Event]:
        """See `Session`."""
        return self._lookup(placement.event_ids)

    def sequence(self, token_ids: Sequence[int], placements: Sequence[Placement]) -> SpannedSequence:
        """See `Session`."""
        return with_spans(token_ids, placements, self._lookup)

    def record(self, token_ids: Sequence[int], placements: Sequence[Placement]) -> None:
        """The first rank does."""

    def _lookup(self, event_ids: Sequence[str]) -> Sequence[Event]:
        return [self._told[event_id] for event_id in event_ids]
