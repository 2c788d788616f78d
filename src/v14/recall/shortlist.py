"""The first stage of a vote over many events: some of the voters choose those that all voters then read.

They read sketches of the keys where the profile has what these are made with (`recall.sketch`), and the keys themselves
where it has not.
"""

import math
from collections.abc import Sequence

import torch

from v14.kernels.votes import Asked
from v14.recall.asking import of_some
from v14.recall.pool import upload
from v14.recall.scanning import Panel
from v14.recall.sketch import Sketch
from v14.recall.voters import Voters

SHARE = 5 / 12
"""Of the voters that choose: those with the largest product of weight and root of spread. By weight alone, voters that
hardly differ from event to event are among them; by what voters give on the whole, those are left out that give much to
few events (LOG.md, "sketches")."""

LEAST = 4


class Shortlist:
    """The voters that choose, and what they read of keys and cues."""

    def __init__(self, voters: Voters, rows: Sequence[int], device: torch.device) -> None:
        """`rows` says which row of the keys each voter reads."""
        chosen, sketch = strongest(voters), voters.sketch
        self.voters = upload(torch.tensor(chosen, dtype=torch.int32), device)
        self.sketch: Sketch | None = None
        if sketch is not None:
            read = sorted({rows[voter] for voter in chosen})
            self._rows = upload(torch.tensor(read), device)
            self.sketch = sketch.rows(read).to(device)
            own = [read.index(rows[voter]) for voter in chosen]
            self._asked_rows = upload(torch.tensor(own, dtype=torch.int32), device)
            # One product gives a query's sketch and what the centre adds to its scores.
            self._into = torch.cat([self.sketch.queries, self.sketch.centre[..., None]], dim=2)[own].contiguous()

    def sketches(self, keys: torch.Tensor) -> torch.Tensor:
        """What the voters that choose read of keys `[U, T, D]` fp32: `[R, T, K]` int8. Only where there is a sketch."""
        assert self.sketch is not None
        return self.sketch.of(keys.index_select(0, self._rows))

    def panel(self, plain: Asked, coded: Asked, *, sketched: bool) -> Panel:
        """The voters that choose with a cue, of sketches or keys. `plain` has what scales the scores, `coded` the same
        for keys in their form; both with all voters."""
        if not sketched:
            return Panel(self.voters, of_some(coded, self.voters))
        both = torch.bmm(plain.queries.index_select(0, self.voters), self._into)
        offered = plain.context.index_select(0, self.voters) - both[..., -1]
        return Panel(self.voters, Asked(both[..., :-1].contiguous(), offered, self._asked_rows), sketched=True)


def strongest(voters: Voters) -> list[int]:
    """The voters that choose, in their order."""
    gives = [abs(weight) for weight in voters.weights]
    if voters.spread:
        gives = [weight * math.sqrt(spread) for weight, spread in zip(gives, voters.spread, strict=True)]
    order = sorted(range(len(gives)), key=lambda voter: -gives[voter])
    return sorted(order[: max(LEAST, round(SHARE * len(gives)))])
