"""Where in a page the next event goes: directly behind the last one, or in tiles that no event crosses."""

from v14.kernels.votes import TILE, TILE_EVENTS

OPEN_TILES = 8
"""Tiles with room left that are remembered: with eight, events of 20 to 100 tokens leave a tenth free."""

LEAST_ROOM = 4
"""Tokens of room below which a tile is full."""


class Layout:
    """Places of one page of `limit` tokens; `end` is where what was never used begins."""

    def __init__(self, limit: int, *, tiled: bool) -> None:
        self.end = 0
        self.numbers: dict[int, int] = {}
        """By start, the number in its tile of an event that was laid and not asked for since."""
        self._limit = limit
        self._tiled = tiled
        # (room, first free token, events) of each tile with room.
        self._open: list[tuple[int, int, int]] = []

    def lay(self, length: int) -> int | None:
        """The first token of the next event; None where the page has no room for it."""
        if not self._tiled:
            if self.end and self.end + length > self._limit:
                return None
            self.end += length
            return self.end - length
        assert 0 < length <= TILE, "an event has at most 128 tokens"
        fitting = [tile for tile in self._open if tile[0] >= length]
        if fitting:
            best = min(fitting)
            self._open.remove(best)
            room, start, number = best
        elif self.end + TILE > self._limit:
            return None
        else:
            room, start, number = TILE, self.end, 0
            self.end += TILE
        self.numbers[start] = number
        if room - length >= LEAST_ROOM and number + 1 < TILE_EVENTS:
            self._open.append((room - length, start + length, number + 1))
            if len(self._open) > OPEN_TILES:
                self._open.remove(min(self._open))
        return start
