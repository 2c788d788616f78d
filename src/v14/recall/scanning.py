"""Votes of a pool's events, page by page: of all of them, or of some that are picked.

Shapes: V voters of a profile, v of them that read, N events one page behind the other.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch

from v14.kernels.votes import Asked, event_shares, tally
from v14.recall.pool import Page, Pool, upload
from v14.recall.voters import Voters
from v14.recall.votes import SHARE_FLOOR


class Panel(NamedTuple):
    """Voters `[v]` int32 that read, what they ask, and whether they read sketches instead of keys."""

    voters: torch.Tensor
    asked: Asked
    sketched: bool = False

    def first(self, num: int) -> "Panel":
        """The first `num` of them."""
        return Panel(self.voters[:num], self.asked.of(slice(num)), self.sketched)


class Scanner:
    """Reads the pages of one pool."""

    def __init__(self, pool: Pool, voters: Voters) -> None:
        self._pool = pool
        self._weights = upload(torch.tensor(voters.weights), pool.device)
        self._all = upload(torch.arange(len(voters.weights), dtype=torch.int32), pool.device)
        self._floor = SHARE_FLOOR if voters.calibration == "log-ratio" else None

    @property
    def rooms(self) -> list[int]:
        """How many places each page has: on a GPU with those that wait for events, so that it reads the same tensors as
        long as they last."""
        return [len(page.starts) if page.starts.is_cuda else len(page.ids) for page in self._pool.pages]

    def everybody(self, asked: Asked) -> Panel:
        """All voters, of keys."""
        return Panel(self._all, asked)

    def votes(self, panel: Panel) -> torch.Tensor:
        """Votes `[N]` of all places; −inf where no event is."""
        rooms = self.rooms
        values = [self._page_votes(page, panel, room) for page, room in zip(self._pool.pages, rooms, strict=True)]
        return values[0] if len(values) == 1 else torch.cat([torch.empty(0, device=self._pool.device), *values])

    def picked(self, panel: Panel, places: torch.Tensor) -> torch.Tensor:
        """Votes of the events at `places` `[n]`, counted through all pages; nothing waits for the device."""
        pages = self._pool.pages
        if len(pages) == 1:
            return self._page_votes(pages[0], panel, places)
        values, first = torch.full(places.shape, -torch.inf, device=places.device), 0
        for page, room in zip(pages, self.rooms, strict=True):
            if not room:
                continue
            slots = places - first
            here = (slots >= 0) & (slots < room)
            # What lies in another page is read as an event of no tokens.
            slots = slots.clamp_(0, room - 1)
            shares = self._shares(page, panel, page.starts[slots], page.lengths[slots] * here)
            values = torch.where(here, self._tallied(page, panel, shares, slots), values)
            first += room
        return values

    def looked_up(self, panel: Panel, places: Sequence[tuple[int, int]]) -> torch.Tensor:
        """Votes `[n]` of the events at some pages and slots."""
        of, slots = torch.tensor(places).unbind(1)
        firsts = torch.tensor([0, *accumulate(self.rooms)])
        return self.picked(panel, upload(firsts[of] + slots, self._pool.device))

    def shares(self, page: Page, asked: Asked, slots: slice) -> torch.Tensor:
        """All voters' shares `[V, n]` of the events in some slots of a page, not calibrated."""
        return self._shares(page, self.everybody(asked), page.starts[slots], page.lengths[slots])

    def _page_votes(self, page: Page, panel: Panel, of: torch.Tensor | int) -> torch.Tensor:
        """Votes of the first so many places of a page, or of some slots."""
        some, slots = (slice(of), None) if isinstance(of, int) else (of, of)
        return self._tallied(page, panel, self._shares(page, panel, page.starts[some], page.lengths[some]), slots)

    def _shares(self, page: Page, panel: Panel, starts: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        keys, scales = (page.sketches, None) if panel.sketched else (page.keys, page.scales)
        if keys is None:
            raise ValueError("a page without sketches was asked for what they say")
        return event_shares(keys, scales, starts, lengths, panel.asked)

    def _tallied(self, page: Page, panel: Panel, shares: torch.Tensor, slots: torch.Tensor | None) -> torch.Tensor:
        return tally(shares, page.null_shares, page.lengths, slots, panel.voters, self._weights, self._floor)
