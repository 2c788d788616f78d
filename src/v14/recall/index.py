"""The index of a namespace: the voter keys of all its events, and their votes for a cue.

On a GPU its work runs on a stream of its own, beside the forward pass. New events wait on the CPU until some thousand
tokens are there or votes are asked for, and are copied, coded and calibrated together.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from v14.geometry import Geometry
from v14.kernels.votes import Asked
from v14.recall.asking import Asking
from v14.recall.ballot import Votes
from v14.recall.coding import Code, KeyForm
from v14.recall.graphs import Cast, Graphs
from v14.recall.pool import Page, Pool, upload
from v14.recall.scanning import Scanner
from v14.recall.shortlist import Shortlist
from v14.recall.voters import Voters
from v14.recall.votes import scalings
from v14.recall.weights import token_weights
from v14.types import Cue

logger = logging.getLogger("v14")

WAITING_TOKENS = 4096
"""New tokens from which on the index takes them in without being asked for votes."""

SCANNED_BYTES = 1 << 30
"""Up to so many bytes of keys all voters read them all. Of more, some voters choose among the events first."""

CENTRED_TOKENS = 4096
"""Tokens from which on keys may be kept in 8 bits: fewer say too little about what all share."""

RECODED_EVENTS = 256
"""Events decoded at once when all change their form."""

PLAIN_BYTES = 1 << 33
"""Keys stay in bfloat16 up to so many bytes: 8 bits cost one of the best five now and then, and save no time."""


class Index:
    """Votes of one namespace's events; events come and go one by one. Safe to use from several threads."""

    def __init__(
        self,
        geometry: Geometry,
        voters: Voters,
        *,
        form: KeyForm = "float32",
        device: torch.device | str = "cpu",
        max_bytes: float = float("inf"),
    ) -> None:
        """`form` is that of the kept keys; scores are summed in fp32 either way. An index that would take more than
        `max_bytes` of a GPU moves to the CPU."""
        self._voters = voters
        self._rows = voters.key_rows(geometry)
        self._scaling = scalings(geometry, voters)
        self._num_rows = len(voters.key_heads(geometry))
        self._dim = geometry.head_dim
        self._max_bytes = max_bytes
        self._numbers: dict[str, int] = {}
        self._next_number = 0
        self._waiting: dict[str, torch.Tensor] = {}
        self._num_waiting = 0
        self._lock = threading.RLock()
        self._form: KeyForm = form
        self._settle(torch.device(device))

    def _settle(self, device: torch.device) -> None:
        """Begin with no events on a device."""
        self._stream = _stream(device)
        with self._working():
            # What centres the keys in 8 bits has to be known first.
            self._begin(Code(form="bfloat16" if self._form == "int8" else self._form, device=device))

    def _begin(self, code: Code, pool: Pool | None = None) -> None:
        """Begin in a form, with the events of a pool or none."""
        self._pool = pool or Pool(self._num_rows, self._dim, len(self._voters.weights), code)
        self._scanner = Scanner(self._pool, self._voters)
        self._asked = Asking(self._rows, self._scaling, self._dim, code)
        self._graphs = Graphs(self._asked)
        self._null = self._asked(self._voters.null)
        self._shortlist = Shortlist(self._voters, self._rows.tolist(), code.device)

    def __len__(self) -> int:
        """Number of events."""
        return len(self._numbers)

    def __contains__(self, event_id: str) -> bool:
        """Whether an event is here."""
        return event_id in self._numbers

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors, spare room included."""
        with self._lock:
            return self._pool.num_bytes + sum(t.numel() * t.element_size() for t in self._waiting.values())

    @property
    def device(self) -> torch.device:
        """Where the keys are."""
        return self._pool.device

    def order(self, event_id: str) -> int:
        """A number that grows with every event added: which of two came first."""
        return self._numbers[event_id]

    def add(self, event_id: str, keys: torch.Tensor) -> None:
        """Add an event with its voter keys `[U, T, D]` (`votes.voter_keys`); a known id changes nothing."""
        with self._lock:
            if event_id in self._numbers:
                return
            num_tokens = keys.shape[1]
            if keys.shape != (self._num_rows, num_tokens, self._dim) or not num_tokens:
                wanted = f"[{self._num_rows}, T, {self._dim}] with T > 0"
                raise ValueError(f"voter keys {tuple(keys.shape)} of {event_id} must be {wanted}")
            self._waiting[event_id] = keys
            self._numbers[event_id] = self._next_number
            self._next_number += 1
            self._num_waiting += num_tokens
            if self._num_waiting >= WAITING_TOKENS:
                self._take_in()

    def add_many(self, ids: Sequence[str], keys: torch.Tensor, lengths: Sequence[int]) -> None:
        """Add new events at once with their keys `[U, sum of lengths, D]`, which the index may overwrite where they are
        on its own GPU."""
        with self._lock:
            self._take_in()
            for event_id in ids:
                self._numbers[event_id] = self._next_number
                self._next_number += 1
            self._put(ids, keys, lengths)

    def remove(self, event_id: str) -> None:
        """Take an event out; an unknown id raises `KeyError`. Nothing of it stays."""
        with self._lock, self._working():
            del self._numbers[event_id]
            waiting = self._waiting.pop(event_id, None)
            if waiting is not None:
                self._num_waiting -= waiting.shape[1]
                return
            self._pool.remove(event_id)
            if not self._pool.places:
                # What the last of them was centred by goes, too.
                self._settle(self.device)

    def votes(self, cue: Cue) -> Votes:
        """The votes of the events that are here now."""
        with self._lock, self._working(cue.queries, cue.context_lse):
            self._take_in()
            pages = self._pool.pages
            ids = [page.ids for page in pages]
            if self._stream is None:
                cast = self._cast(self._asked.plain(cue))
            else:
                cast = self._graphs(self._cast, cue, (self._is_large, self._pool.is_sketched, self._pool.standing()))
            return Votes(self, ids, self._scanner.rooms, cast, cue)

    def _cast(self, plain: Asked) -> Cast:
        """The votes for a cue on the device, of all events or of those that are chosen."""
        asked = self._asked.coded(plain)
        scanner, everybody = self._scanner, self._scanner.everybody(asked)
        if not self._is_large or len(self._shortlist.voters) == len(everybody.voters):
            return Cast(scanner.votes(everybody), None)
        few = self._shortlist.panel(plain, asked, sketched=self._pool.is_sketched)
        chosen = self._shortlist.chosen(scanner, few)
        return Cast(scanner.picked(everybody, chosen), chosen)

    @property
    def _is_large(self) -> bool:
        """Whether not all voters read all keys."""
        return self._pool.num_tokens * self._pool.token_bytes > SCANNED_BYTES

    def looked_up(self, cue: Cue, places: Sequence[tuple[int, int]]) -> torch.Tensor:
        """Votes `[n]` of the events at some pages and slots, with all voters, on the index's device."""
        return self._scanner.looked_up(self._scanner.everybody(self._asked(cue)), places)

    def place(self, event_id: str) -> tuple[int, int] | None:
        """Page and slot of an event that was taken in."""
        return self._pool.places.get(event_id)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Nothing changes inside, and device work runs on the index's stream."""
        with self._lock, self._working():
            yield

    def shares(self, cue: Cue) -> tuple[list[str], torch.Tensor]:
        """Ids of all events and their shares `[N, V]` on the CPU, not calibrated."""
        with self._lock, self._working(cue.queries, cue.context_lse):
            self._take_in()
            asked = self._asked(cue)
            ids, parts = [], [torch.empty(0, len(self._scaling))]
            for page, slots in self._pool.live():
                ids += [str(page.ids[slot]) for slot in slots]
                parts.append(self._scanner.shares(page, asked, slice(0, len(page.ids))).T.cpu()[slots])
            return ids, torch.cat(parts)

    def null_shares(self) -> torch.Tensor:
        """Shares `[N, V]` of all events for the content-free cue, in the order of `shares`."""
        with self._lock, self._working():
            self._take_in()
            parts = [page.null_shares.T.cpu()[slots] for page, slots in self._pool.live()]
            return torch.cat([torch.empty(0, len(self._scaling)), *parts])

    def token_weights(self, cue: Cue, ids: Sequence[str]) -> torch.Tensor:
        """How much each token of the cue gives to some events' votes, `[n, Q]` on the CPU; an unknown id raises
        `KeyError`."""
        with self._lock, self._working(cue.queries, cue.context_lse):
            self._take_in()
            places = [self._pool.places[event_id] for event_id in ids]
            found: dict[int, torch.Tensor] = {}
            for number in sorted({number for number, _ in places}):
                page = self._pool.pages[number]
                mine = [place for place, (of, _) in enumerate(places) if of == number]
                slots = [places[place][1] for place in mine]
                keys, _ = self._pool.several(page, slots)
                lengths = [page.spans[slot][1] for slot in slots]
                weights = token_weights(cue, keys, lengths, self._rows, self._scaling, self._voters).cpu()
                found |= dict(zip(mine, weights, strict=True))
            return torch.stack([found[place] for place in range(len(places))])

    def _take_in(self) -> None:
        """Copy, code and calibrate what waits."""
        if self._waiting:
            ids, keys = list(self._waiting), list(self._waiting.values())
            # An engine's come from its GPU, a store's from the CPU.
            if len({each.device for each in keys}) > 1:
                keys = [each.cpu() for each in keys]
            with self._working(*keys):
                together = torch.cat(keys, 1)
            self._put(ids, together, [each.shape[1] for each in keys])
            self._waiting.clear()
            self._num_waiting = 0

    def _put(self, ids: Sequence[str], keys: torch.Tensor, lengths: Sequence[int]) -> None:
        """Put events into the pool, on the CPU where the GPU has no room for them."""
        cpu = torch.device("cpu")
        if self.device != cpu and self._pool.num_bytes + self._pool.token_bytes * sum(lengths) > self._max_bytes:
            self.move("bfloat16", cpu)
        try:
            with self._working(keys):
                self._fill(ids, upload(keys, self.device), lengths)
        except torch.OutOfMemoryError:
            if self.device == cpu:
                raise
            # Some may be in their page already, not calibrated.
            self.move("bfloat16", cpu, but=ids)
            self._fill(ids, keys.cpu(), lengths)
        many = self._pool.num_tokens >= CENTRED_TOKENS and self._pool.num_bytes >= PLAIN_BYTES
        if self._form == "int8" != self._pool.code.form and many:
            self._begin_int8()
        if self._is_large and self._shortlist.sketch is not None and not self._pool.is_sketched:
            self._begin_sketches()

    def _begin_int8(self) -> None:
        """Keep the keys in 8 bits from now on, or on the CPU where the GPU has no room for both forms at once."""
        try:
            with self._working():
                self._recode(Code(form="int8", device=self.device, centre=self._pool.mean()))
        except torch.OutOfMemoryError:
            if self.device.type == "cpu":
                raise
            self.move("bfloat16", torch.device("cpu"))

    def _begin_sketches(self) -> None:
        """Keep sketches beside the keys from now on, on the CPU where the GPU has no room for them."""
        try:
            with self._working():
                self._pool.begin_sketches(self._shortlist.sketches)
        except torch.OutOfMemoryError:
            if self.device.type == "cpu":
                raise
            self.move("bfloat16", torch.device("cpu"))
            self._begin_sketches()

    def _fill(self, ids: Sequence[str], keys: torch.Tensor, lengths: Sequence[int]) -> None:
        """Put events into the pool with their keys `[U, sum of lengths, D]`, and calibrate them."""
        for page, slots in self._pool.append(ids, keys, lengths):
            page.null_shares[:, slots] = self._scanner.shares(page, self._null, slots)
        if self._stream is not None:
            # Memory of the device that is given back is not overwritten by anybody.
            keys.zero_()

    def _recode(self, code: Code, but: Sequence[str] = ()) -> None:
        """Keep what is here, but for some events, in another form, or elsewhere, from now on. Where there is no room
        for it, all stays as it was."""
        before, stream, left = self._pool, self._stream, {*but}
        if code.device != before.device:
            self._stream = _stream(code.device)
        self._begin(code)
        try:
            for page, slots in before.live():
                kept = [slot for slot in slots if page.ids[slot] not in left]
                for first in range(0, len(kept), RECODED_EVENTS):
                    self._take_over(before, page, kept[first : first + RECODED_EVENTS])
        except torch.OutOfMemoryError:
            begun, self._stream = self._pool, stream
            self._begin(before.code, before)
            before = begun
            raise
        finally:
            for page in before.pages:
                page.wipe()

    def _take_over(self, before: Pool, page: Page, slots: list[int]) -> None:
        """Put events of a page of another pool into this one, with their null shares."""
        keys, null = before.several(page, slots)
        ids, lengths = [str(page.ids[slot]) for slot in slots], [page.spans[slot][1] for slot in slots]
        with self._working():
            added = self._pool.append(ids, upload(keys, self._pool.device), lengths)
            null, done = upload(null, self._pool.device), 0
            for fresh, places in added:
                num = places.stop - places.start
                fresh.null_shares[:, places] = null[:, done : done + num]
                done += num

    def move(self, form: KeyForm, device: torch.device, but: Sequence[str] = ()) -> None:
        """Keep the keys, but for those of some events, in another form and place from now on."""
        with self._lock:
            logger.warning(
                "an index of %d events moves from %s to %s: it would take more than %.1f GB there",
                len(self), self.device, device, self._max_bytes / 1e9,
            )  # fmt: skip
            if self._stream is not None:
                self._stream.synchronize()
            self._form = form
            self._recode(Code(form=form, device=device), but)

    @contextmanager
    def _working(self, *inputs: torch.Tensor) -> Iterator[None]:
        """On a GPU, work on the index's own stream, behind what made the inputs."""
        if self._stream is None:
            yield
            return
        for tensor in inputs:
            if tensor.is_cuda:
                self._stream.wait_stream(torch.cuda.current_stream(tensor.device))
                tensor.record_stream(self._stream)
        with torch.cuda.stream(self._stream):
            yield


def _stream(device: torch.device) -> torch.cuda.Stream | None:
    """A stream of one's own, where there are any."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
