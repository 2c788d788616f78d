"""Voter keys of many events back to back, in pages that grow: what the kernels of `v14.kernels.votes` read.

    keys      [ event 0 | event 1 | freed: zeros | event 3 | spare ]
    slot          0         1       2: length 0     3

An event lies in one page and keeps its slot until the page is packed anew, which happens when half of it was freed.
Nothing of an event stays that was removed: its keys are overwritten, and so is what a page leaves when it moves.

Shapes: U rows of voter keys, D dimension of a head, V voters, T tokens and E events that a page has room for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from v14.recall.coding import Code

PAGE_BYTES = 1 << 30
"""A page grows by doubling up to this size; then another begins."""

GPU_PAGE_BYTES = 1 << 33
"""The same on a GPU, where every page costs some launches."""

ALIGNED_TOKENS = 16
"""Room is a multiple of this, so that one kernel fits pages of every size."""

SKETCHED_TOKENS = 1 << 16
"""Tokens sketched at once when sketches are begun, which takes their keys in fp32."""

FIRST_TOKENS = 128
FIRST_EVENTS = 8

Sketched = Callable[[torch.Tensor], torch.Tensor]
"""Makes sketches `[R, T, K]` int8 of keys `[U, T, D]` fp32."""


@dataclass(eq=False)
class Page:
    """Tensors have room for more than is there; `spans` are (start, length) by slot, `ids` None where one was removed.

    keys: `[U, T, D]`; scales: `[U, T]` fp16, None but for int8; sketches: `[R, T, K]` int8, None as long as nobody
    reads any (`Pool.begin_sketches`); starts `[E]` int64, lengths `[E]` int32 and null_shares `[V, E]` fp32 by slot.
    `num_tokens` are those of all events that were added, `num_freed` of those removed.
    """

    keys: torch.Tensor
    scales: torch.Tensor | None
    starts: torch.Tensor
    lengths: torch.Tensor
    null_shares: torch.Tensor
    sketches: torch.Tensor | None = None
    ids: list[str | None] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    num_tokens: int = 0
    num_freed: int = 0

    def wipe(self) -> None:
        """Overwrite what it held."""
        self.keys.zero_()
        if self.sketches is not None:
            self.sketches.zero_()

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors, spare room included."""
        tensors = (self.keys, self.scales, self.sketches, self.starts, self.lengths, self.null_shares)
        return sum(t.numel() * t.element_size() for t in tensors if t is not None)


class Pool:
    """Pages on one device, of keys in one form. Not thread-safe."""

    def __init__(self, num_rows: int, dim: int, num_voters: int, code: Code) -> None:
        self.code = code
        self.device = code.device
        self.pages: list[Page] = []
        self.places: dict[str, tuple[int, int]] = {}
        self._num_rows, self._dim, self._num_voters = num_rows, dim, num_voters
        page_bytes = GPU_PAGE_BYTES if code.device.type == "cuda" else PAGE_BYTES
        self._page_tokens = max(FIRST_TOKENS, page_bytes // self.token_bytes)
        self._sketched: Sketched | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes of all pages."""
        return sum(page.num_bytes for page in self.pages)

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's keys, without what is kept beside them."""
        return self._num_rows * (self._dim * self.code.dtype.itemsize + (2 if self.code.form == "int8" else 0))

    @property
    def num_tokens(self) -> int:
        """Tokens of all events."""
        return sum(page.num_tokens - page.num_freed for page in self.pages)

    def standing(self) -> tuple[int, ...]:
        """Where the pages' tensors stand, with their room: other numbers when any of them is another one."""
        tensors = (
            tensor
            for page in self.pages
            for tensor in (page.keys, page.scales, page.sketches, page.starts, page.lengths, page.null_shares)
            if tensor is not None
        )
        return tuple(number for tensor in tensors for number in (tensor.data_ptr(), tensor.numel()))

    def mean(self) -> torch.Tensor:
        """The mean key of each row, `[U, D]` fp32; of keys as they were added."""
        total = torch.zeros(self._num_rows, self._dim, device=self.device)
        for page in self.pages:
            total += page.keys.sum(1, dtype=torch.float32)
        return total / self.num_tokens

    def begin_sketches(self, sketched: Sketched) -> None:
        """Keep beside all keys what `sketched` makes of them."""
        for page in self.pages:
            for first in range(0, page.num_tokens, SKETCHED_TOKENS):
                some = slice(first, min(page.num_tokens, first + SKETCHED_TOKENS))
                _sketch(page, some, sketched(self._decoded(page, some)))
        self._sketched = sketched

    @property
    def is_sketched(self) -> bool:
        """Whether there are sketches beside the keys."""
        return self._sketched is not None

    def append(self, ids: Sequence[str], keys: torch.Tensor, lengths: Sequence[int]) -> list[tuple[Page, slice]]:
        """Add events with their keys `[U, sum of lengths, D]` on the pool's device; the slots that they got."""
        coded, scales = self.code.encode(keys)
        added, first, done = [], 0, 0
        while first < len(ids):
            page = self._page_for(lengths[first])
            num, size = 1, lengths[first]
            while first + num < len(ids) and page.num_tokens + size + lengths[first + num] <= self._page_tokens:
                size += lengths[first + num]
                num += 1
            some = slice(first, first + num)
            mine = coded[:, done : done + size], None if scales is None else scales[:, done : done + size]
            slots = self._fill(page, ids[some], lengths[some], *mine)
            if self._sketched is not None:
                tokens = slice(page.num_tokens - size, page.num_tokens)
                _sketch(page, tokens, self._sketched(keys[:, done : done + size].float()))
            added.append((page, slots))
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
        if page.sketches is not None:
            page.sketches[:, start : start + length] = 0
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
        return self._decoded(page, slice(start, start + length)).cpu()

    def several(self, page: Page, slots: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys `[U, sum of lengths, D]` fp32 and null shares `[V, n]` of the events in some slots."""
        keys = self._decoded(page, self._tokens([page.spans[slot] for slot in slots]))
        return keys, page.null_shares[:, upload(torch.tensor(slots), self.device)]

    def _decoded(self, page: Page, tokens: slice | torch.Tensor) -> torch.Tensor:
        """Keys of some tokens in fp32."""
        return self.code.decode(page.keys[:, tokens], None if page.scales is None else page.scales[:, tokens])

    def _page_for(self, num_tokens: int) -> Page:
        """The page that takes an event of so many tokens: an empty one takes any."""
        last = self.pages[-1] if self.pages else None
        if last is None or (last.num_tokens and last.num_tokens + num_tokens > self._page_tokens):
            self.pages.append(self._empty(FIRST_TOKENS, FIRST_EVENTS))
        return self.pages[-1]

    def _fill(
        self,
        page: Page,
        ids: Sequence[str],
        lengths: Sequence[int],
        coded: torch.Tensor,
        scales: torch.Tensor | None,
    ) -> slice:
        """Put events behind those of a page; `coded` are the keys of all of them."""
        number, slots = self.pages.index(page), slice(len(page.ids), len(page.ids) + len(ids))
        tokens = slice(page.num_tokens, page.num_tokens + sum(lengths))
        self._make_room(page, tokens.stop, slots.stop)
        page.keys[:, tokens] = coded
        if page.scales is not None and scales is not None:
            page.scales[:, tokens] = scales
        for event_id, length in zip(ids, lengths, strict=True):
            self.places[event_id] = (number, len(page.ids))
            page.ids.append(event_id)
            page.spans.append((page.num_tokens, length))
            page.num_tokens += length
        starts, sizes = torch.tensor(page.spans[slots]).unbind(1)
        page.starts[slots] = upload(starts.contiguous(), self.device)
        page.lengths[slots] = upload(sizes.int(), self.device)
        return slots

    def _tokens(self, spans: list[tuple[int, int]]) -> slice | torch.Tensor:
        """Where the tokens of some spans are."""
        starts, lengths = torch.tensor(spans).unbind(1)
        ends = lengths.cumsum(0)
        if bool((starts[1:] == starts[:-1] + lengths[:-1]).all()):
            return slice(int(starts[0]), int(starts[0] + ends[-1]))
        within = torch.arange(int(ends[-1])) - torch.repeat_interleave(ends - lengths, lengths)
        return upload(torch.repeat_interleave(starts, lengths) + within, self.device)

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
            room = -(-room // ALIGNED_TOKENS) * ALIGNED_TOKENS
            used = page.keys.shape[1]
            page.keys = _grown(page.keys, 1, room, used)
            if page.scales is not None:
                page.scales = _grown(page.scales, 1, room, used)
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
            spans = [page.spans[slot] for slot in slots]
            old = self._tokens(spans)
            scales = None if page.scales is None else page.scales[:, old]
            ids = [str(page.ids[slot]) for slot in slots]
            self._fill(fresh, ids, [length for _, length in spans], page.keys[:, old], scales)
            if page.sketches is not None:
                _sketch(fresh, slice(0, fresh.num_tokens), page.sketches[:, old])
            fresh.null_shares[:, : len(slots)] = page.null_shares[:, upload(torch.tensor(slots), self.device)]
        page.wipe()


def upload(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor on `device`, in the order of the current stream; a copy of pageable memory would wait for it."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def _sketch(page: Page, tokens: slice, made: torch.Tensor) -> None:
    """Put sketches of some tokens into a page, with as much room as its keys have."""
    room = page.keys.shape[1]
    if page.sketches is None:
        page.sketches = made.new_zeros(len(made), room, made.shape[2])
    elif room > page.sketches.shape[1]:
        page.sketches = _grown(page.sketches, 1, room, page.sketches.shape[1])
    page.sketches[:, tokens] = made


def _grown(tensor: torch.Tensor, axis: int, room: int, used: int) -> torch.Tensor:
    shape = list(tensor.shape)
    shape[axis] = room
    grown = tensor.new_zeros(shape)
    grown.narrow(axis, 0, used).copy_(tensor.narrow(axis, 0, used))
    tensor.zero_()
    return grown
