"""What comes before a vote over many events: some of the voters choose those that all voters then read.

They read sketches of the keys where the profile has what these are made with (`recall.sketch`), and the keys themselves
where it has not. Of very many events the strongest of them choose first, so that most are read by a quarter of all
voters:

    events     all              → FIRST_CHOSEN       → CHOSEN
    read by    FIRST_SHARE of     SHARE of the         all voters
               the voters         voters
"""

import math
from collections.abc import Sequence

import torch

from v14.kernels.votes import Asked
from v14.recall.pool import upload
from v14.recall.scanning import Panel, Scanner
from v14.recall.sketch import Sketch
from v14.recall.voters import Voters

FIRST_SHARE = 1 / 4
SHARE = 7 / 12
"""Of the voters that choose: those with the largest product of weight and root of spread. By weight alone, voters that
hardly differ from event to event are among them; by what voters give on the whole, those are left out that give much to
few events (LOG.md, "sketches")."""

LEAST = 4

FIRST_CHOSEN = 8192
CHOSEN = 1024
"""How many events are chosen, and how many by the first of those that choose (LOG.md, "three stages")."""


class Shortlist:
    """The voters that choose, and what they read of keys and cues."""

    def __init__(self, voters: Voters, rows: Sequence[int], device: torch.device) -> None:
        """`rows` says which row of the keys each voter reads."""
        chosen, sketch = strongest(voters), voters.sketch
        self._num_first = max(LEAST, round(FIRST_SHARE * len(voters.weights)))
        self.voters = upload(torch.tensor(chosen, dtype=torch.int32), device)
        self.sketch: Sketch | None = None
        if sketch is not None:
            read = sorted({rows[voter] for voter in chosen})
            self._rows = upload(torch.tensor(read), device)
            self.sketch = sketch.rows(read).to(device)
            own = [read.index(rows[voter]) for voter in chosen]
            self._asked_rows = upload(torch.tensor(own, dtype=torch.int32), device)
            self._into = self.sketch.queries[own].contiguous()
            self._centre = self.sketch.centre[own][..., None].contiguous()

    def sketches(self, keys: torch.Tensor) -> torch.Tensor:
        """What the voters that choose read of keys `[U, T, D]` fp32: `[R, T, K]` int8. Only where there is a sketch."""
        assert self.sketch is not None
        return self.sketch.of(keys.index_select(0, self._rows))

    def chosen(self, scanner: Scanner, panel: Panel) -> torch.Tensor:
        """Places of the events that are chosen, counted through all pages."""
        num_events = sum(scanner.rooms)
        if num_events <= 2 * FIRST_CHOSEN or self._num_first >= len(panel.voters):
            return _best(scanner.votes(panel), min(CHOSEN, num_events))
        places = _best(scanner.votes(panel.first(self._num_first)), FIRST_CHOSEN)
        return places[_best(scanner.picked(panel, places), CHOSEN)]

    def panel(self, plain: Asked, coded: Asked, *, sketched: bool) -> Panel:
        """The voters that choose with a cue, of sketches or keys. `plain` has what scales the scores, `coded` the same
        for keys in their form; both with all voters."""
        if not sketched:
            return Panel(self.voters, coded.of(self.voters))
        queries, context = plain.queries[self.voters], plain.context[self.voters]
        offered = torch.baddbmm(context[..., None], queries, self._centre, alpha=-1)[..., 0]
        asked = Asked(torch.bmm(queries, self._into), offered, self._asked_rows, plain.inverse)
        return Panel(self.voters, asked, sketched=True)


def strongest(voters: Voters) -> list[int]:
    """The voters that choose, strongest first."""
    gives = [abs(weight) for weight in voters.weights]
    if voters.spread:
        gives = [weight * math.sqrt(spread) for weight, spread in zip(gives, voters.spread, strict=True)]
    order = sorted(range(len(gives)), key=lambda voter: -gives[voter])
    return order[: max(LEAST, round(SHARE * len(gives)))]


def _best(votes: torch.Tensor, num: int) -> torch.Tensor:
    """Where the `num` largest are, in any order."""
    return torch.topk(votes, num, sorted=False).indices
