"""Where spans stand in running conversations.

A later turn of a chat arrives as its whole transcript, without the spans that earlier turns were read behind. To
find the prefix cache and to continue what the model really saw, those spans go back to where they stood:

    turn 1 was read as   [system] span₁ [user₁]
    turn 2 arrives as    [system]       [user₁] [reply₁] [user₂]
    and is read as       [system] span₁ [user₁] [reply₁] span₂ [user₂]

The book is kept in memory only: after a restart an old conversation goes on with a new span in front of its newest
turn.
"""

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

MAX_TRANSCRIPTS = 20_000


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The events of one span, standing directly in front of token `index` of the real token ids."""

    index: int
    event_ids: tuple[str, ...]


class Transcripts:
    """The placements of the prompts read lately, found again by the prompt's own tokens."""

    def __init__(self, max_transcripts: int = MAX_TRANSCRIPTS) -> None:
        self._placements: OrderedDict[bytes, tuple[Placement, ...]] = OrderedDict()
        self._namespaces: dict[bytes, str] = {}
        self._max_transcripts = max_transcripts

    def record(self, namespace: str, token_ids: Sequence[int], placements: Sequence[Placement]) -> None:
        """Note the placements that the prompt `token_ids` was read with."""
        key = next(iter(_prefix_digests(namespace, token_ids, [len(token_ids)])))[1]
        self._placements[key] = tuple(placements)
        self._placements.move_to_end(key)
        self._namespaces[key] = namespace
        while len(self._placements) > self._max_transcripts:
            self._drop(next(iter(self._placements)))

    def find(self, namespace: str, token_ids: Sequence[int], lengths: Iterable[int]) -> tuple[Placement, ...]:
        """Placements of the longest known prompt that is one of the prefixes with the given lengths."""
        found: tuple[Placement, ...] = ()
        for _, key in _prefix_digests(namespace, token_ids, sorted(set(lengths))):
            if key in self._placements:
                self._placements.move_to_end(key)
                found = self._placements[key]
        return found

    def forget(self, namespace: str, ids: Collection[str]) -> None:
        """Take events out of what is noted of a namespace's conversations."""
        gone = set(ids)
        for key in [key for key, name in self._namespaces.items() if name == namespace]:
            left = (
                replace(placement, event_ids=tuple(i for i in placement.event_ids if i not in gone))
                for placement in self._placements[key]
            )
            self._placements[key] = tuple(placement for placement in left if placement.event_ids)

    def _drop(self, key: bytes) -> None:
        del self._placements[key], self._namespaces[key]


def _prefix_digests(namespace: str, token_ids: Sequence[int], lengths: Sequence[int]) -> Iterable[tuple[int, bytes]]:
    """SHA-256 of namespace and prefix for each length (ascending), in one pass over the tokens."""
    digest = hashlib.sha256(struct.pack("<q", len(namespace)) + namespace.encode())
    done = 0
    for length in lengths:
        digest.update(struct.pack(f"<{length - done}q", *token_ids[done:length]))
        done = length
        yield length, digest.digest()
