"""Finding turns in token ids: a chat template leaves fixed runs of tokens where a turn opens and closes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Tokens [start, end) of one role; content begins at `content_start`, closing tokens at `closing_start`."""

    role: str
    start: int
    content_start: int
    closing_start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class TurnFormat:
    """The token runs that open a turn of each role, and the run that closes any turn.

    A model without a chat template has no openings: its text is one turn of the role `text`.
    """

    openings: Mapping[str, tuple[int, ...]]
    closing: tuple[int, ...] = ()

    def turns(self, token_ids: Sequence[int]) -> list[Turn]:
        """The turns of a sequence, in order. Tokens before the first opening (a BOS) belong to no turn."""
        ids = tuple(token_ids)
        if not self.openings:
            return [Turn(role="text", start=0, content_start=0, closing_start=len(ids), end=len(ids))] if ids else []
        by_first: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
        for role, opening in sorted(self.openings.items(), key=lambda item: -len(item[1])):
            by_first.setdefault(opening[0], []).append((role, opening))
        opened = []
        position = 0
        while position < len(ids):
            for role, opening in by_first.get(ids[position], ()):
                if ids[position : position + len(opening)] == opening:
                    opened.append((role, position, position + len(opening)))
                    position += len(opening) - 1
                    break
            position += 1
        ends = [*(start for _, start, _ in opened[1:]), *([len(ids)] if opened else [])]
        return [self._turn(ids, *turn, end) for turn, end in zip(opened, ends, strict=True)]

    def _turn(self, ids: tuple[int, ...], role: str, start: int, content_start: int, end: int) -> Turn:
        closing_start = end
        for length in range(min(len(self.closing), end - content_start), 0, -1):
            # A turn may end inside its closing run: a reply stops at the end token, the newline follows later.
            if ids[end - length : end] == self.closing[:length]:
                closing_start = end - length
                break
        return Turn(role=role, start=start, content_start=content_start, closing_start=closing_start, end=end)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"openings": {r: list(o) for r, o in self.openings.items()}, "closing": list(self.closing)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TurnFormat":
        """The inverse of `to_json`."""
        return cls(openings={r: tuple(o) for r, o in data["openings"].items()}, closing=tuple(data["closing"]))
