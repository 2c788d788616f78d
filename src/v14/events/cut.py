"""Cutting what was read into events: turn by turn, long turns at sentence ends, at most `event_tokens` each."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from v14.events.turns import TurnFormat
from v14.types import ROOT_ID, Event, event_id

UNWRITTEN_ROLES = frozenset({"system", "developer"})
"""Roles that instruct rather than tell; they come with every request and are not remembered."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """An event and the place [start, end) in the sequence where its tokens stand."""

    event: Event
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Cutter:
    """Cuts sequences of one model. `sentence_ends` are token ids that end a sentence or line."""

    turns: TurnFormat
    sentence_ends: Collection[int] = frozenset()
    event_tokens: int = 128

    def cut(self, token_ids: Sequence[int], *, namespace: str, said_at: float, chat_id: str = "") -> list[Cut]:
        """Events of a sequence, in order. The chat's id is, if not given, that of its first event."""
        ids = tuple(token_ids)
        cuts: list[Cut] = []
        parent = ROOT_ID
        done = 0
        for turn in self.turns.turns(ids):
            if turn.content_start >= turn.closing_start:
                continue
            for start, end in self._pieces(ids, turn.start, turn.end, turn.closing_start):
                closing_len = max(0, end - max(turn.closing_start, start))
                body = ids[start : end - closing_len]
                if not body:
                    continue
                if done < start:
                    parent = event_id(parent, ids[done:start])
                if turn.role not in UNWRITTEN_ROLES:
                    event = Event(
                        namespace=namespace,
                        chat_id=chat_id or (cuts[0].event.chat_id if cuts else event_id(parent, body)),
                        role=turn.role,
                        said_at=said_at,
                        token_ids=ids[start:end],
                        parent=parent,
                        closing_len=closing_len,
                    )
                    cuts.append(Cut(event=event, start=start, end=end))
                parent = event_id(parent, body)
                done = end
        return cuts

    def _pieces(self, ids: tuple[int, ...], start: int, end: int, closing_start: int) -> Iterator[tuple[int, int]]:
        """Split [start, end) into runs of at most `event_tokens`, the later half of a run offering sentence ends."""
        while end - start > self.event_tokens:
            stop = start + self.event_tokens
            for candidate in range(stop, start + self.event_tokens // 2, -1):
                if ids[candidate - 1] in self.sentence_ends:
                    stop = candidate
                    break
            # Closing tokens alone are no event: leave them at least one token of the body.
            stop = min(stop, closing_start - 1) if stop >= closing_start > start + 1 else stop
            yield start, stop
            start = stop
        yield start, end
