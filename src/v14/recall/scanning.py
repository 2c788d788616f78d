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
        return Panel(self.voters[:num], Asked(*(each[:num] for each in self.asked)), self.sketched)


class Scanner:
    """Reads the pages of one pool."""

    def __init__(self, pool: Pool, voters: Voters) -> None:
        self._pool = pool
        self._weights = upload(torch.tensor(voters.weights), pool.device)
        self._all = upload(torch.arange(len(voters.weights), dtype=torch.int32), pool.device)
        self._floor = SHARE_FLOOR if voters.calibration == "log-ratio" else None

    def everybody(self, asked: Asked) -> Panel:
        """All voters, of keys."""
        return Panel(self._all, asked)

    def votes(self, panel: Panel) -> torch.Tensor:
        """Votes `[N]` of all events; −inf where one was removed."""
        values = [self._page_votes(page, panel) for page in self._pool.pages]
        return values[0] if len(values) == 1 else torch.cat([torch.empty(0, device=self._pool.device), *values])

    def picked(self, panel: Panel, places: torch.Tensor) -> torch.Tensor:
        """Votes of the events at `places` `[n]`, counted through all pages; nothing waits for the device."""
        pages = self._pool.pages
        if len(pages) == 1:
            return self._page_votes(pages[0], panel, places)
        values, first = torch.full(places.shape, -torch.inf, device=places.device), 0
        for page in pages:
            if not page.ids:
                continue
            slots = places - first
            here = (slots >= 0) & (slots < len(page.ids))
            # What lies in another page is read as an event of no tokens.
            slots = slots.clamp_(0, len(page.ids) - 1)
            shares = self._shares(page, panel, page.starts[slots], page.lengths[slots] * here)
            values = torch.where(here, self._tallied(page, panel, shares, slots), values)
            first += len(page.ids)
        return values

    def looked_up(self, panel: Panel, places: Sequence[tuple[int, int]]) -> torch.Tensor:
        """Votes `[n]` of the events at some pages and slots."""
        of, slots = torch.tensor(places).unbind(1)
        firsts = torch.tensor([0, *accumulate(len(page.ids) for page in self._pool.pages)])
        return self.picked(panel, upload(firsts[of] + slots, self._pool.device))

    def shares(self, page: Page, asked: Asked, slots: slice) -> torch.Tensor:
        """All voters' shares `[V, n]` of the events in some slots of a page, not calibrated."""
        return self._shares(page, self.everybody(asked), page.starts[slots], page.lengths[slots])

    def _page_votes(self, page: Page, panel: Panel, slots: torch.Tensor | None = None) -> torch.Tensor:
        some = slice(0, len(page.ids)) if slots is None else slots
        return self._tallied(page, panel, self._shares(page, panel, page.starts[some], page.lengths[some]), slots)

    def _shares(self, page: Page, panel: Panel, starts: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        keys, scales = (page.sketches, None) if panel.sketched else (page.keys, page.scales)
        if keys is None:
            raise ValueError("a page without sketches was asked for what they say")
        return event_shares(keys, scales, starts, lengths, panel.asked)

    def _tallied(self, page: Page, panel: Panel, shares: torch.Tensor, slots: torch.Tensor | None) -> torch.Tensor:
        return tally(shares, page.null_shares, page.lengths, slots, panel.voters, self._weights, self._floor)
