"""How a prompt is to be read: where its new part begins, and its token ids with spans in place."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from v14.events.turns import Turn
from v14.reinstate.transcripts import Placement
from v14.types import Event


@dataclass(frozen=True, kw_only=True)
class Layout:
    """`new_start` is the index in the real token ids where the new part begins, `placements` are the spans of the
    chat's earlier turns."""

    new_start: int
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SpannedSequence:
    """Token ids with spans in place; `positions[i]` is where real token i stands, `starts[k]` where span k begins."""

    token_ids: tuple[int, ...]
    positions: tuple[int, ...]
    starts: tuple[int, ...]


def new_part(turns: Sequence[Turn], silent_roles: Collection[str]) -> tuple[int, list[int]]:
    """Where the new part begins: behind the last reply, or behind what the `silent_roles` said at the start.

    Without turns everything is new. Returned with the lengths at which an earlier prompt of this chat may have ended:
    where a reply's content begins.
    """
    new_start = 0
    prefixes = []
    for turn, following in zip_longest(turns, turns[1:]):
        if turn.role == "assistant" and following is not None and turn.closing_start > turn.content_start:
            new_start = following.start
            prefixes.append(turn.content_start)
        elif turn.role in silent_roles and following is not None and (turn is turns[0] or new_start == turn.start):
            new_start = following.start
        elif turn is turns[0] and new_start == 0:
            new_start = turn.start
    return new_start, prefixes


def with_spans(
    token_ids: Sequence[int], placements: Sequence[Placement], events_of: Callable[[Sequence[str]], Sequence[Event]]
) -> SpannedSequence:
    """The real token ids with the events of each placement (ascending by index) in front of the token they belong to.

    `events_of` finds events by id; its `KeyError` passes through.
    """
    ids: list[int] = []
    positions: list[int] = []
    starts: list[int] = []
    done = 0
    for placement in placements:
        positions.extend(range(len(ids), len(ids) + placement.index - done))
        ids.extend(token_ids[done : placement.index])
        done = placement.index
        starts.append(len(ids))
        for event in events_of(placement.event_ids):
            ids.extend(event.token_ids)
    positions.extend(range(len(ids), len(ids) + len(token_ids) - done))
    ids.extend(token_ids[done:])
    return SpannedSequence(token_ids=tuple(ids), positions=tuple(positions), starts=tuple(starts))
