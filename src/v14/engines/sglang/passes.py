"""Which rows of a forward pass belong to which request."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One request's share of a forward pass over prompts.

    `place` is its place in the batch; it reads `length` tokens from position `start` of its sequence on, in the rows
    of the batch from `first_row` on.
    """

    rid: str
    place: int
    start: int
    length: int
    first_row: int

    @property
    def end(self) -> int:
        """Position behind the last token."""
        return self.start + self.length

    def rows(self, start: int, end: int) -> slice:
        """The rows of the positions [start, end)."""
        return slice(self.first_row + start - self.start, self.first_row + end - self.start)


def passes(batch: Any) -> Iterator[Pass]:
    """The shares of all requests of a `ForwardBatch` that reads prompts, in the batch's order."""
    first_row = 0
    lengths = zip(batch.rids, batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu, strict=True)
    for place, (rid, start, length) in enumerate(lengths):
        yield Pass(rid=rid, place=place, start=int(start), length=int(length), first_row=first_row)
        first_row += int(length)
