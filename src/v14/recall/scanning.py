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
        """Votes of the events at `places` `[n]`, counted through all pages."""
        pages = self._pool.pages
        if len(pages) == 1:
            return self._page_votes(pages[0], panel, places)
        here = places.cpu()
        firsts = torch.tensor([0, *accumulate(len(page.ids) for page in pages)])
        of = torch.bucketize(here, firsts[1:], right=True)
        return self._by_page(panel, of, here - firsts[of])

    def looked_up(self, panel: Panel, places: Sequence[tuple[int, int]]) -> torch.Tensor:
        """Votes `[n]` of the events at some pages and slots."""
        of, slots = torch.tensor(places).unbind(1)
        return self._by_page(panel, of, slots)

    def shares(self, page: Page, asked: Asked, slots: slice) -> torch.Tensor:
        """All voters' shares `[V, n]` of the events in some slots of a page, not calibrated."""
        return self._page_shares(page, self.everybody(asked), slots)

    def _by_page(self, panel: Panel, of: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        values = torch.empty(len(of), device=self._pool.device)
        for number in sorted({*of.tolist()}):
            mine = (of == number).nonzero()[:, 0]
            some = upload(slots[mine], self._pool.device)
            values[upload(mine, self._pool.device)] = self._page_votes(self._pool.pages[number], panel, some)
        return values

    def _page_votes(self, page: Page, panel: Panel, slots: torch.Tensor | None = None) -> torch.Tensor:
        shares = self._page_shares(page, panel, slice(0, len(page.ids)) if slots is None else slots)
        return tally(shares, page.null_shares, page.lengths, slots, panel.voters, self._weights, self._floor)

    def _page_shares(self, page: Page, panel: Panel, slots: slice | torch.Tensor) -> torch.Tensor:
        keys, scales = (page.sketches, None) if panel.sketched else (page.keys, page.scales)
        if keys is None:
            raise ValueError("a page without sketches was asked for what they say")
        return event_shares(keys, scales, page.starts[slots], page.lengths[slots], panel.asked)
