"""Voter keys of many events back to back, in pages that grow: what the kernels of `v14.kernels.votes` read.

    keys      [ event 0 | event 1 | freed: zeros | event 3 | spare ]
    slot          0         1       2: length 0     3

On a GPU no event crosses the border of two tiles (`v14.kernels.votes.Tiles`); what that leaves free is zero. An event
lies in one page and keeps its slot until the page is packed anew, which happens when half of it was freed. Nothing of
an event stays that was removed: its keys are overwritten, and so is what a page leaves when it moves.

Shapes: U rows of voter keys, D dimension of a head, V voters, T tokens and E events that a page has room for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from v14.kernels.votes import TILE, TILE_EVENTS, Tiles
from v14.recall.coding import Code
from v14.recall.layout import Layout

PAGE_BYTES = 1 << 30
"""A page grows by doubling up to this size; then another begins."""

GPU_PAGE_BYTES = 1 << 33
"""The same on a GPU, where every page costs some launches."""

FIRST_TOKENS = 128
FIRST_EVENTS = 8


@dataclass(eq=False)
class Page:
    """Tensors have room for more than is there; `spans` are (start, length) by slot, `ids` None where one was removed.

    keys: `[U, T, D]`; scales: `[U, T]` fp16, None but for int8; starts `[E]` int64, lengths `[E]` int32 and null_shares
    `[V, E]` fp32 by slot. `num_tokens` are those of all events that were added, `num_freed` of those removed.
    """

    keys: torch.Tensor
    scales: torch.Tensor | None
    starts: torch.Tensor
    lengths: torch.Tensor
    null_shares: torch.Tensor
    tiles: Tiles | None
    layout: Layout
    ids: list[str | None] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    num_tokens: int = 0
    num_freed: int = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors, spare room included."""
        tensors = (self.keys, self.scales, self.starts, self.lengths, self.null_shares, *(self.tiles or ()))
        return sum(t.numel() * t.element_size() for t in tensors if t is not None)


class Pool:
    """Pages on one device, of keys in one form. Not thread-safe."""

    def __init__(self, num_rows: int, dim: int, num_voters: int, code: Code, *, tiled: bool | None = None) -> None:
        """`tiled`: whether events lie in tiles; by default on a GPU."""
        self.code = code
        self.device = code.device
        self.pages: list[Page] = []
        self.places: dict[str, tuple[int, int]] = {}
        self._num_rows, self._dim, self._num_voters = num_rows, dim, num_voters
        self.tiled = code.device.type == "cuda" if tiled is None else tiled
        page_bytes = GPU_PAGE_BYTES if code.device.type == "cuda" else PAGE_BYTES
        self._page_tokens = max(FIRST_TOKENS, page_bytes // self.token_bytes // TILE * TILE)

    @property
    def num_bytes(self) -> int:
        """Bytes of all pages."""
        return sum(page.num_bytes for page in self.pages)

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's keys."""
        return self._num_rows * (self._dim * self.code.dtype.itemsize + (2 if self.code.form == "int8" else 0))

    @property
    def num_tokens(self) -> int:
        """Tokens of all events."""
        return sum(page.num_tokens - page.num_freed for page in self.pages)

    def mean(self) -> torch.Tensor:
        """The mean key of each row, `[U, D]` fp32; of keys as they were added."""
        total = torch.zeros(self._num_rows, self._dim, device=self.device)
        for page in self.pages:
            total += page.keys.sum(1, dtype=torch.float32)
        return total / self.num_tokens

    def append(self, ids: Sequence[str], keys: torch.Tensor, lengths: Sequence[int]) -> list[tuple[Page, slice]]:
        """Add events with their keys `[U, sum of lengths, D]` on the pool's device; the slots that they got."""
        coded, scales = self.code.encode(keys)
        added, first, done = [], 0, 0
        while first < len(ids):
            if not self.pages:
                self.pages.append(self._empty(FIRST_TOKENS, FIRST_EVENTS))
            page = self.pages[-1]
            starts: list[int] = []
            while first + len(starts) < len(ids):
                start = page.layout.lay(lengths[first + len(starts)])
                if start is None:
                    break
                starts.append(start)
            if not starts:
                self.pages.append(self._empty(FIRST_TOKENS, FIRST_EVENTS))
                continue
            some = slice(first, first + len(starts))
            size = sum(lengths[some])
            mine = coded[:, done : done + size], None if scales is None else scales[:, done : done + size]
            added.append((page, self._fill(page, ids[some], [*zip(starts, lengths[some], strict=True)], *mine)))
            first, done = some.stop, done + size
        return added

    def remove(self, event_id: str) -> None:
        """Take an event out and overwrite its keys; an unknown id raises `KeyError`."""
        number, slot = self.places.pop(event_id)
        page = self.pages[number]
        start, length = page.spans[slot]
        page.keys[:, start : start + length] = 0
        if page.scales is not None:
            page.scales[:, start : start + length] = 0
        if page.tiles is not None:
            mine = page.tiles.slots[start // TILE]
            mine.masked_fill_(mine == slot, -1)
            page.tiles.owners[start : start + length] = -1
        page.lengths[slot] = 0
        page.null_shares[:, slot] = 0
        page.ids[slot] = None
        page.spans[slot] = (start, 0)
        page.num_freed += length
        if 2 * page.num_freed >= page.num_tokens:
            self._pack(page, number)

    def live(self) -> Iterator[tuple[Page, list[int]]]:
        """Pages with the slots where events are."""
        for page in self.pages:
            yield page, [slot for slot, event_id in enumerate(page.ids) if event_id is not None]

    def keys(self, event_id: str) -> torch.Tensor:
        """The keys of one event, `[U, T, D]` fp32 on the CPU; an unknown id raises `KeyError`."""
        number, slot = self.places[event_id]
        page = self.pages[number]
        start, length = page.spans[slot]
        mine = slice(start, start + length)
        return self.code.decode(page.keys[:, mine], None if page.scales is None else page.scales[:, mine]).cpu()

    def several(self, page: Page, slots: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys `[U, sum of lengths, D]` fp32 and null shares `[V, n]` of the events in some slots."""
        tokens = self._tokens([page.spans[slot] for slot in slots])
        keys = self.code.decode(page.keys[:, tokens], None if page.scales is None else page.scales[:, tokens])
        return keys, page.null_shares[:, upload(torch.tensor(slots), self.device)]

    def _fill(
        self,
        page: Page,
        ids: Sequence[str],
        spans: list[tuple[int, int]],
        coded: torch.Tensor,
        scales: torch.Tensor | None,
    ) -> slice:
        """Put events into a page where it was laid out; `coded` are the keys of all of them."""
        number, slots = self.pages.index(page), slice(len(page.ids), len(page.ids) + len(ids))
        self._make_room(page, page.layout.end, slots.stop)
        tokens = self._tokens(spans)
        page.keys[:, tokens] = coded
        if page.scales is not None and scales is not None:
            page.scales[:, tokens] = scales
        for event_id, (start, length) in zip(ids, spans, strict=True):
            self.places[event_id] = (number, len(page.ids))
            page.ids.append(event_id)
            page.spans.append((start, length))
            page.num_tokens += length
        self._tell(page, slots, tokens)
        return slots

    def _tokens(self, spans: list[tuple[int, int]]) -> slice | torch.Tensor:
        """Where the tokens of some spans are."""
        starts, lengths = torch.tensor(spans).unbind(1)
        ends = lengths.cumsum(0)
        if bool((starts[1:] == starts[:-1] + lengths[:-1]).all()):
            return slice(int(starts[0]), int(starts[0] + ends[-1]))
        within = torch.arange(int(ends[-1])) - torch.repeat_interleave(ends - lengths, lengths)
        return upload(torch.repeat_interleave(starts, lengths) + within, self.device)

    def _tell(self, page: Page, slots: slice, tokens: slice | torch.Tensor) -> None:
        """Copy what is known of some slots, and of their tokens, to the device."""
        starts, lengths = torch.tensor(page.spans[slots]).unbind(1)
        page.starts[slots] = upload(starts.contiguous(), self.device)
        page.lengths[slots] = upload(lengths.int(), self.device)
        if page.tiles is not None:
            numbers = torch.tensor([page.layout.numbers.pop(start) for start in starts.tolist()])
            page.tiles.owners[tokens] = upload(torch.repeat_interleave(numbers.to(torch.int8), lengths), self.device)
            of = upload(starts // TILE, self.device), upload(numbers, self.device)
            page.tiles.slots[of] = upload(torch.arange(slots.start, slots.stop, dtype=torch.int32), self.device)

    def _empty(self, num_tokens: int, num_events: int) -> Page:
        device, rows = self.device, self._num_rows
        eight = self.code.form == "int8"
        return Page(
            keys=torch.zeros(rows, num_tokens, self._dim, dtype=self.code.dtype, device=device),
            scales=torch.zeros(rows, num_tokens, dtype=torch.float16, device=device) if eight else None,
            starts=torch.zeros(num_events, dtype=torch.int64, device=device),
            lengths=torch.zeros(num_events, dtype=torch.int32, device=device),
            null_shares=torch.zeros(self._num_voters, num_events, device=device),
            tiles=self._no_tiles(num_tokens) if self.tiled else None,
            layout=Layout(self._page_tokens, tiled=self.tiled),
        )

    def _no_tiles(self, num_tokens: int) -> Tiles:
        return Tiles(
            torch.full((num_tokens,), -1, dtype=torch.int8, device=self.device),
            torch.full((num_tokens // TILE, TILE_EVENTS), -1, dtype=torch.int32, device=self.device),
        )

    def _make_room(self, page: Page, num_tokens: int, num_events: int) -> None:
        """Have room for so many tokens and events; what is left behind is overwritten."""
        if num_tokens > page.keys.shape[1]:
            room = min(max(num_tokens, 2 * page.keys.shape[1]), max(num_tokens, self._page_tokens))
            room = -(-room // TILE) * TILE
            used = page.keys.shape[1]
            page.keys = _grown(page.keys, 1, room, used)
            if page.scales is not None:
                page.scales = _grown(page.scales, 1, room, used)
            if page.tiles is not None:
                grown = self._no_tiles(room)
                grown.owners[:used] = page.tiles.owners
                grown.slots[: used // TILE] = page.tiles.slots
                page.tiles = grown
        if num_events > len(page.starts):
            room, used = max(num_events, 2 * len(page.starts)), len(page.ids)
            page.starts, page.lengths = _grown(page.starts, 0, room, used), _grown(page.lengths, 0, room, used)
            page.null_shares = _grown(page.null_shares, 1, room, used)

    def _pack(self, page: Page, number: int) -> None:
        """Move the events of a page together."""
        slots = [slot for slot, event_id in enumerate(page.ids) if event_id is not None]
        fresh = self._empty(FIRST_TOKENS, max(FIRST_EVENTS, len(slots)))
        self.pages[number] = fresh
        if slots:
            old, spans = self._tokens([page.spans[slot] for slot in slots]), []
            for slot in slots:
                length = page.spans[slot][1]
                start = fresh.layout.lay(length)
                assert start is not None
                spans.append((start, length))
            scales = None if page.scales is None else page.scales[:, old]
            ids = [str(page.ids[slot]) for slot in slots]
            self._fill(fresh, ids, spans, page.keys[:, old], scales)
            fresh.null_shares[:, : len(slots)] = page.null_shares[:, upload(torch.tensor(slots), self.device)]
        page.keys.zero_()


def upload(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor on `device`, in the order of the current stream; a copy of pageable memory would wait for it."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def _grown(tensor: torch.Tensor, axis: int, room: int, used: int) -> torch.Tensor:
    shape = list(tensor.shape)
    shape[axis] = room
    grown = tensor.new_zeros(shape)
    grown.narrow(axis, 0, used).copy_(tensor.narrow(axis, 0, used))
    tensor.zero_()
    return grown
