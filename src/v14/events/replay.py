"""Sequences in which a model reads events again: the head that every conversation has, then events in their order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from v14.events.cut import Cutter
from v14.events.file import Plain
from v14.events.turns import TurnFormat
from v14.types import Event

MAX_TOKENS = 1024
"""Tokens of one sequence behind its head. Events of a chat are read behind each other as far as this reaches."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Token ids to read, and the events in them with the place at which each begins."""

    token_ids: tuple[int, ...]
    events: tuple[tuple[int, Event], ...]


def head_of(conversation: Sequence[int], turns: TurnFormat) -> tuple[int, ...]:
    """What a chat template puts in front of the first user's turn: a BOS, a default system turn, or nothing."""
    ids = tuple(conversation)
    first = next((turn.start for turn in turns.turns(ids) if turn.role == "user"), 0)
    return ids[:first]


def events_of(plain: Plain, content: Sequence[int], head: Sequence[int], cutter: Cutter, namespace: str) -> list[Event]:
    """The events that a turn in plain words makes behind `head`; `content` are the ids of its text."""
    turns = cutter.turns
    ids = (*head, *turns.openings.get(plain.role, ()), *content, *turns.closing)
    cuts = cutter.cut(ids, namespace=namespace, said_at=plain.said_at, chat_id=plain.chat_id)
    return [cut.event for cut in cuts if cut.start >= len(head)]


def replays(events: Iterable[Event], head: Sequence[int], max_tokens: int = MAX_TOKENS) -> Iterator[Replay]:
    """The events chat by chat, each once, in the order in which they are given; `max_tokens` without the head."""
    chats: dict[str, dict[str, Event]] = {}
    for event in events:
        chats.setdefault(event.chat_id, {}).setdefault(event.id, event)
    for chat in chats.values():
        ids, placed = list(head), list[tuple[int, Event]]()
        for event in chat.values():
            if placed and len(ids) + event.num_tokens > len(head) + max_tokens:
                yield Replay(token_ids=tuple(ids), events=tuple(placed))
                ids, placed = list(head), []
            placed.append((len(ids), event))
            ids += event.token_ids
        yield Replay(token_ids=tuple(ids), events=tuple(placed))
