"""Voter keys of many events back to back, in pages that grow: what the kernels of `v14.kernels.votes` read.

    keys      [ event 0 | event 1 | freed: zeros | event 3 | spare ]
    slot          0         1       2: length 0     3

An event lies in one page and keeps its slot until the page is packed anew, which happens when half of it was freed.
Nothing of an event stays that was removed: its keys are overwritten, and so is what a page leaves when it moves.

Shapes: U rows of voter keys, D dimension of a head, V voters, T tokens and E events that a page has room for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from v14.recall.coding import Code

PAGE_BYTES = 1 << 30
"""A page grows by doubling up to this size; then another begins."""

FIRST_TOKENS = 64
FIRST_EVENTS = 8


@dataclass(eq=False)
class Page:
    """Tensors have room for more than is there; `spans` are (start, length) by slot, `ids` None where one was removed.

    keys: `[U, T, D]`; scales: `[U, T]` fp16, None but for int8; starts `[E]` int64, lengths `[E]` int32 and null_shares
    `[V, E]` fp32 by slot.
    """

    keys: torch.Tensor
    scales: torch.Tensor | None
    starts: torch.Tensor
    lengths: torch.Tensor
    null_shares: torch.Tensor
    ids: list[str | None] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    num_tokens: int = 0
    num_freed: int = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors, spare room included."""
        tensors = (self.keys, self.scales, self.starts, self.lengths, self.null_shares)
        return sum(t.numel() * t.element_size() for t in tensors if t is not None)


class Pool:
    """Pages on one device, of keys in one form. Not thread-safe."""

    def __init__(self, num_rows: int, dim: int, num_voters: int, code: Code) -> None:
        self.code = code
        self.device = code.device
        self.pages: list[Page] = []
        self.places: dict[str, tuple[int, int]] = {}
        self._num_rows, self._dim, self._num_voters = num_rows, dim, num_voters
        self._page_tokens = max(FIRST_TOKENS, PAGE_BYTES // self.token_bytes)

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
            total += page.keys[:, : page.num_tokens].sum(1, dtype=torch.float32)
        return total / self.num_tokens

    def append(self, ids: Sequence[str], keys: torch.Tensor, lengths: Sequence[int]) -> list[tuple[Page, slice]]:
        """Add events with their keys `[U, sum of lengths, D]` on the pool's device; the slots that they got."""
        coded, scales = self.code.encode(keys)
        added, first, done = [], 0, 0
        while first < len(ids):
            page = self._page(lengths[first])
            end, size = first, 0
            while end < len(ids) and page.num_tokens + size + lengths[end] <= self._page_tokens:
                size += lengths[end]
                end += 1
            added.append((page, self._fill(page, ids[first:end], coded, scales, lengths[first:end], done)))
            first, done = end, done + size
        return added

    def remove(self, event_id: str) -> None:
        """Take an event out and overwrite its keys; an unknown id raises `KeyError`."""
        number, slot = self.places.pop(event_id)
        page = self.pages[number]
        start, length = page.spans[slot]
        page.keys[:, start : start + length] = 0
        if page.scales is not None:
            page.scales[:, start : start + length] = 0
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

    def _page(self, num_tokens: int) -> Page:
        """The page where the next event of `num_tokens` goes."""
        if not self.pages or self.pages[-1].num_tokens + num_tokens > self._page_tokens:
            self.pages.append(self._empty(FIRST_TOKENS, FIRST_EVENTS))
        return self.pages[-1]

    def _fill(
        self,
        page: Page,
        ids: Sequence[str],
        keys: torch.Tensor,
        scales: torch.Tensor | None,
        lengths: Sequence[int],
        first: int,
    ) -> slice:
        """Put events into a page; theirs are the tokens of `keys` from `first` on."""
        number, at, slot, total = self.pages.index(page), page.num_tokens, len(page.ids), sum(lengths)
        self._make_room(page, at + total, slot + len(ids))
        page.keys[:, at : at + total] = keys[:, first : first + total]
        if page.scales is not None and scales is not None:
            page.scales[:, at : at + total] = scales[:, first : first + total]
        slots = slice(slot, slot + len(ids))
        for event_id, length in zip(ids, lengths, strict=True):
            self.places[event_id] = (number, len(page.ids))
            page.ids.append(event_id)
            page.spans.append((page.num_tokens, length))
            page.num_tokens += length
        self._tell(page, slots)
        return slots

    def _tell(self, page: Page, slots: slice) -> None:
        """Copy the spans of some slots to the device."""
        spans = torch.tensor(page.spans[slots], dtype=torch.int64).reshape(-1, 2)
        page.starts[slots] = upload(spans[:, 0].contiguous(), self.device)
        page.lengths[slots] = upload(spans[:, 1].int(), self.device)

    def _empty(self, num_tokens: int, num_events: int) -> Page:
        device, rows = self.device, self._num_rows
        eight = self.code.form == "int8"
        return Page(
            keys=torch.zeros(rows, num_tokens, self._dim, dtype=self.code.dtype, device=device),
            scales=torch.zeros(rows, num_tokens, dtype=torch.float16, device=device) if eight else None,
            starts=torch.zeros(num_events, dtype=torch.int64, device=device),
            lengths=torch.zeros(num_events, dtype=torch.int32, device=device),
            null_shares=torch.zeros(self._num_voters, num_events, device=device),
        )

    def _make_room(self, page: Page, num_tokens: int, num_events: int) -> None:
        """Have room for so many tokens and events; what is left behind is overwritten."""
        if num_tokens > page.keys.shape[1]:
            room = min(max(num_tokens, 2 * page.keys.shape[1]), max(num_tokens, self._page_tokens))
            page.keys = _grown(page.keys, 1, room, page.num_tokens)
            if page.scales is not None:
                page.scales = _grown(page.scales, 1, room, page.num_tokens)
        if num_events > len(page.starts):
            room, used = max(num_events, 2 * len(page.starts)), len(page.ids)
            page.starts, page.lengths = _grown(page.starts, 0, room, used), _grown(page.lengths, 0, room, used)
            page.null_shares = _grown(page.null_shares, 1, room, used)

    def _pack(self, page: Page, number: int) -> None:
        """Move the events of a page together."""
        slots = [slot for slot, event_id in enumerate(page.ids) if event_id is not None]
        spans = [page.spans[slot] for slot in slots]
        fresh = self._empty(max(FIRST_TOKENS, sum(length for _, length in spans)), max(FIRST_EVENTS, len(slots)))
        if slots:
            tokens = upload(torch.cat([torch.arange(at, at + length) for at, length in spans]), self.device)
            fresh.keys[:, : len(tokens)] = page.keys[:, tokens]
            if fresh.scales is not None and page.scales is not None:
                fresh.scales[:, : len(tokens)] = page.scales[:, tokens]
            fresh.null_shares[:, : len(slots)] = page.null_shares[:, upload(torch.tensor(slots), self.device)]
        page.keys.zero_()
        for slot, (_, length) in zip(slots, spans, strict=True):
            event_id = page.ids[slot]
            assert event_id is not None
            self.places[event_id] = (number, len(fresh.ids))
            fresh.ids.append(event_id)
            fresh.spans.append((fresh.num_tokens, length))
            fresh.num_tokens += length
        self._tell(fresh, slice(0, len(slots)))
        self.pages[number] = fresh


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
