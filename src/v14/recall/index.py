"""The index of a namespace: the voter keys of all its events, and their votes for a cue."""

from dataclasses import dataclass, field

import torch

from v14.geometry import Geometry
from v14.recall.ballot import Votes
from v14.recall.voters import Voters
from v14.recall.votes import scalings, shares, votes
from v14.recall.weights import token_weights
from v14.types import Cue

SLOT_STEP = 16
"""Events are padded to a multiple of this many tokens; those of one padded length share a bucket."""

CHUNK_SCORES = 1 << 22
"""Scores computed at once (fp32), so that votes need megabytes beside the keys, whatever the number of events."""


@dataclass
class _Bucket:
    """Events padded to one length. Rows from `len(ids)` on are spare: growing doubles the capacity."""

    keys: torch.Tensor  # [U, capacity, T, D]
    lengths: torch.Tensor  # [capacity] int64
    null_shares: torch.Tensor  # [capacity, V] fp32
    ids: list[str] = field(default_factory=list)
    num_calibrated: int = 0  # rows whose null shares are there; those of new events are computed together


class Index:
    """Votes of one namespace's events; events come and go one by one. Not thread-safe: its owner locks."""

    def __init__(self, geometry: Geometry, voters: Voters, *, dtype: torch.dtype = torch.float32) -> None:
        """`dtype` is that of the kept keys; scores are computed in fp32 either way."""
        self._voters = voters
        self._rows = voters.key_rows(geometry).tolist()
        self._scaling = scalings(geometry, voters)
        self._num_rows = len(voters.key_heads(geometry))
        self._dim = geometry.head_dim
        self._dtype = dtype
        self._buckets: dict[int, _Bucket] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._numbers: dict[str, int] = {}
        self._next_number = 0

    def __len__(self) -> int:
        """Number of events."""
        return len(self._places)

    def __contains__(self, event_id: str) -> bool:
        """Whether an event is here."""
        return event_id in self._places

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors, spare capacity included."""
        tensors = [t for b in self._buckets.values() for t in (b.keys, b.lengths, b.null_shares)]
        return sum(t.numel() * t.element_size() for t in tensors)

    def order(self, event_id: str) -> int:
        """A number that grows with every event added: which of two came first."""
        return self._numbers[event_id]

    def add(self, event_id: str, keys: torch.Tensor) -> None:
        """Add an event with its voter keys `[U, T, D]` (`votes.voter_keys`); a known id changes nothing."""
        if event_id in self._places:
            return
        num_tokens = keys.shape[1]
        if keys.shape != (self._num_rows, num_tokens, self._dim) or not num_tokens:
            wanted = f"[{self._num_rows}, T, {self._dim}] with T > 0"
            raise ValueError(f"voter keys {tuple(keys.shape)} of {event_id} must be {wanted}")
        slots = -(-num_tokens // SLOT_STEP) * SLOT_STEP
        bucket = self._buckets.setdefault(slots, self._empty(slots, 0))
        if len(bucket.ids) == len(bucket.lengths):
            bucket = self._buckets[slots] = self._grown(bucket, slots)
        place = len(bucket.ids)
        bucket.keys[:, place] = 0
        bucket.keys[:, place, :num_tokens] = keys.to(self._dtype)
        bucket.lengths[place] = num_tokens
        bucket.ids.append(event_id)
        self._places[event_id] = (slots, place)
        self._numbers[event_id] = self._next_number
        self._next_number += 1

    def remove(self, event_id: str) -> None:
        """Take an event out; an unknown id raises `KeyError`."""
        slots, place = self._places.pop(event_id)
        del self._numbers[event_id]
        bucket = self._buckets[slots]
        last = len(bucket.ids) - 1
        self._calibrate(bucket)
        if place != last:
            # The last event moves into the gap, so that the live rows stay together.
            bucket.keys[:, place] = bucket.keys[:, last]
            bucket.lengths[place] = bucket.lengths[last]
            bucket.null_shares[place] = bucket.null_shares[last]
            bucket.ids[place] = bucket.ids[last]
            self._places[bucket.ids[place]] = (slots, place)
        # A row that nobody reads any more is not left to say what it was.
        bucket.keys[:, last] = 0
        bucket.null_shares[last] = 0
        bucket.ids.pop()
        bucket.num_calibrated -= 1
        if not bucket.ids:
            del self._buckets[slots]

    def votes(self, cue: Cue) -> Votes:
        """The votes of the events that are here now."""
        ids, share = self.shares(cue)
        places = {event_id: place for place, event_id in enumerate(ids)}
        return Votes(votes(share, self.null_shares(), self._voters), ids, places.get)

    def shares(self, cue: Cue) -> tuple[list[str], torch.Tensor]:
        """Ids of all events and their shares `[N, V]`, not calibrated."""
        ids = [event_id for bucket in self._buckets.values() for event_id in bucket.ids]
        parts = [self._shares(cue, bucket, 0) for bucket in self._buckets.values()]
        return ids, torch.cat([torch.empty(0, len(self._scaling)), *parts])

    def token_weights(self, cue: Cue, event_id: str) -> torch.Tensor:
        """How much each token of the cue gives to an event's vote, `[Q]`; an unknown id raises `KeyError`."""
        slots, place = self._places[event_id]
        bucket = self._buckets[slots]
        keys = bucket.keys[:, place, : int(bucket.lengths[place])]
        return token_weights(cue, keys, self._rows, self._scaling, self._voters)

    def null_shares(self) -> torch.Tensor:
        """Shares `[N, V]` of all events for the content-free cue, in the order of `shares`; computed once per event."""
        parts = []
        for bucket in self._buckets.values():
            self._calibrate(bucket)
            parts.append(bucket.null_shares[: len(bucket.ids)])
        return torch.cat([torch.empty(0, len(self._scaling)), *parts])

    def _calibrate(self, bucket: _Bucket) -> None:
        new = slice(bucket.num_calibrated, len(bucket.ids))
        bucket.null_shares[new] = self._shares(self._voters.null, bucket, bucket.num_calibrated)
        bucket.num_calibrated = len(bucket.ids)

    def _shares(self, cue: Cue, bucket: _Bucket, first: int) -> torch.Tensor:
        """Shares of the bucket's events from row `first` on."""
        step = max(1, CHUNK_SCORES // (bucket.keys.shape[2] * cue.queries.shape[1]))
        parts = [torch.empty(0, len(self._scaling))]
        for start in range(first, len(bucket.ids), step):
            rows = slice(start, min(start + step, len(bucket.ids)))
            parts.append(shares(cue, bucket.keys[:, rows], bucket.lengths[rows], self._rows, self._scaling))
        return torch.cat(parts)

    def _empty(self, slots: int, capacity: int) -> _Bucket:
        return _Bucket(
            keys=torch.empty(self._num_rows, capacity, slots, self._dim, dtype=self._dtype),
            lengths=torch.empty(capacity, dtype=torch.int64),
            null_shares=torch.empty(capacity, len(self._voters.heads)),
        )

    def _grown(self, bucket: _Bucket, slots: int) -> _Bucket:
        used = len(bucket.ids)
        grown = self._empty(slots, max(8, 2 * used))
        grown.keys[:, :used] = bucket.keys
        grown.lengths[:used] = bucket.lengths
        grown.null_shares[:used] = bucket.null_shares
        grown.ids, grown.num_calibrated = bucket.ids, bucket.num_calibrated
        return grown
