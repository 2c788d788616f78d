"""A namespace in memory: its events and the index that votes on them, read from the store when first asked for."""

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch

from v14.errors import TraceCorruptError, TraceNotKeptError
from v14.events.words import Vocabulary
from v14.geometry import Geometry
from v14.recall.ballot import Ballot, Joint
from v14.recall.coding import KeyForm
from v14.recall.corrections import corrections
from v14.recall.doubt import LATE
from v14.recall.index import Index
from v14.recall.lexicon import Lexicon
from v14.recall.terms import Overlap, Terms
from v14.recall.voters import Voters
from v14.recall.votes import voter_keys
from v14.recall.wording import Wording
from v14.store.contract import Store
from v14.types import Cue, Event, Link

logger = logging.getLogger("v14")

MAX_SPACES = 10_000
"""Namespaces held in memory, whatever their size: empty ones take room, too, and anybody may name one."""


@dataclass(kw_only=True)
class Space:
    """Events by id, in order of insertion, and their index. Safe to use from several threads.

    `number` is that of the store up to which its changes are known here (`Store.changes`). `superseded` says of an
    event which later ones correct it, and with what score, `following` which one stands behind it in its chat.
    """

    index: Index
    geometry: Geometry
    voters: Voters
    events: dict[str, Event] = field(default_factory=dict)
    terms: Terms = field(default_factory=Terms)
    lexicon: Lexicon = field(default_factory=Lexicon)
    superseded: dict[str, dict[str, float]] = field(default_factory=dict)
    following: dict[str, str] = field(default_factory=dict)
    number: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def add(self, event: Event, keys: torch.Tensor) -> None:
        """Add an event with its keys `[S, T, H, D]` at the voters' layers (`Voters.slots`)."""
        self.add_all([event], [voter_keys(keys, self.geometry, self.voters)])

    def add_all(self, events: Sequence[Event], views: Sequence[torch.Tensor]) -> None:
        """Add events, each with what voters read of it (`votes.voter_keys`), all computed and on one device."""
        with self.lock:
            fresh = {e.id: (e, view) for e, view in zip(events, views, strict=True) if e.id not in self.events}
            if fresh and views[0].is_cuda:
                together = torch.cat([view for _, view in fresh.values()], dim=1)
                # The index reads on a stream of its own.
                torch.cuda.current_stream(together.device).synchronize()
                self.index.add_many([*fresh], together, [event.num_tokens for event, _ in fresh.values()])
            for event, view in fresh.values():
                self.events[event.id] = event
                if not view.is_cuda:
                    self.index.add(event.id, view)
                self.terms.add(event.id, event.body)
                self.lexicon.add(event.id, event.body)
                self.following[event.parent] = event.id

    def before(self, event: Event) -> Event | None:
        """What stands in front of an event in its chat, None where it is not here."""
        with self.lock:
            return self.events.get(event.parent)

    def after(self, event: Event) -> Event | None:
        """What stands behind an event in a chat, None where it is not here."""
        with self.lock:
            return self.events.get(self.following.get(event.id, ""))

    def link(self, links: Iterable[Link]) -> None:
        """Take in links; only those that say what supersedes what are followed here."""
        with self.lock:
            for link in links:
                if link.kind == "supersedes":
                    self.superseded.setdefault(link.target, {})[link.source] = link.weight

    def unlink(self, link: Link) -> None:
        """Let go of a link; one that is not here changes nothing."""
        with self.lock:
            self.superseded.get(link.target, {}).pop(link.source, None)

    def link_anew(self, links: Iterable[Link]) -> None:
        """Let go of all links, and take in these."""
        with self.lock:
            self.superseded.clear()
            self.link(links)

    def corrections(self, event: Event, says_change: Callable[[Sequence[int]], bool]) -> list[Link]:
        """Links between an event that is here and others that it corrects, or that correct it."""
        with self.lock:
            return corrections(event, Overlap([self.terms]), self.events.get, says_change)

    def keep(self, ids: Collection[str]) -> None:
        """Take out all events but these."""
        with self.lock:
            for event_id in self.events.keys() - ids:
                self.remove(event_id)

    def remove(self, event_id: str) -> None:
        """Take an event out; one that is not here changes nothing."""
        with self.lock:
            event = self.events.pop(event_id, None)
            if event is not None:
                if self.following.get(event.parent) == event_id:
                    del self.following[event.parent]
                self.index.remove(event_id)
                self.terms.remove(event_id)
                self.lexicon.remove(event_id)
                self.superseded.pop(event_id, None)
                for later in self.superseded.values():
                    later.pop(event_id, None)

    def votes(self, cue: Cue) -> Ballot:
        """The votes of all events that are here now."""
        with self.lock:
            return self.index.votes(cue)

    def token_weights(self, cue: Cue, ids: Sequence[str]) -> torch.Tensor:
        """How much each token of the cue gives to some events' votes, `[n, Q]`; an unknown id raises `KeyError`."""
        return self.index.token_weights(cue, ids)

    def late(self, cue: Cue, ids: Iterable[str]) -> dict[str, tuple[float, ...]]:
        """What each of the cue's last `LATE` tokens gives to the votes of those events that are here, the last one
        first, as if a vote were that token's alone."""
        end = Cue(queries=cue.queries[:, -LATE:], context_lse=cue.context_lse[:, -LATE:])
        with self.lock:
            here = [event_id for event_id in ids if event_id in self.events]
            if not here:
                return {}
            weights = self.index.token_weights(end, here)
        return {
            event_id: tuple(own)
            for event_id, own in zip(here, (weights.flip(1) * weights.shape[1]).tolist(), strict=True)
        }

    @property
    def num_bytes(self) -> int:
        """Bytes of the index."""
        with self.lock:
            return self.index.num_bytes

    def lookup(self, ids: Sequence[str]) -> list[Event]:
        """Events by id. Raises `KeyError` for one that is not here."""
        return [self.events[event_id] for event_id in ids]


class Reach:
    """The spaces that one request reads, seen as one: its own first, then shared ones.

    What several of them hold is taken from the first: the id says that its text is the same.
    """

    def __init__(self, spaces: Mapping[str, Space]) -> None:
        """`spaces` by namespace, in the order in which they are asked."""
        self._spaces = spaces

    def __len__(self) -> int:
        """Number of events, what several spaces hold counted in each."""
        return sum(len(space.events) for space in self._spaces.values())

    def __contains__(self, event_id: str) -> bool:
        """Whether an event is in one of the spaces."""
        return any(event_id in space.events for space in self._spaces.values())

    def lookup(self, ids: Sequence[str]) -> list[Event]:
        """Events by id. Raises `KeyError` for one that is in none of the spaces."""
        return [self._holder(event_id).events[event_id] for event_id in ids]

    def order(self, event_id: str) -> int:
        """Which of two events of one space came first."""
        return self._holder(event_id).index.order(event_id)

    def votes(self, cue: Cue) -> Ballot:
        """The votes of all events, each event once."""
        return Joint([space.votes(cue) for space in self._spaces.values()])

    def token_weights(self, cue: Cue, ids: Sequence[str]) -> torch.Tensor:
        """How much each token of the cue gives to some events' votes, `[n, Q]`; an unknown id raises `KeyError`."""
        found: dict[str, torch.Tensor] = {}
        for space in {id(holder): holder for holder in map(self._holder, ids)}.values():
            own = [event_id for event_id in ids if self._holder(event_id) is space]
            found |= dict(zip(own, space.token_weights(cue, own), strict=True))
        return torch.stack([found[event_id] for event_id in ids])

    def late(self, cue: Cue, ids: Collection[str]) -> dict[str, tuple[float, ...]]:
        """What the cue's last tokens give to the votes of events (`Space.late`)."""
        found: dict[str, tuple[float, ...]] = {}
        for space in self._spaces.values():
            found |= space.late(cue, [event_id for event_id in ids if event_id not in found])
        return found

    def wording(self, asked: Sequence[int]) -> Wording:
        """What the events have of a question's words, and of each other's."""
        return Wording([space.lexicon for space in self._spaces.values()], asked)

    def before(self, event: Event) -> Event | None:
        """What stands in front of an event in its chat, None where it is not here."""
        return self._holder(event.id).before(event)

    def after(self, event: Event) -> Event | None:
        """What stands behind an event in a chat, None where it is not here."""
        return self._holder(event.id).after(event)

    def superseded(self, event_id: str) -> Mapping[str, float]:
        """The events that correct one, by what space it is taken from, with their scores."""
        return self._holder(event_id).superseded.get(event_id, {})

    def _holder(self, event_id: str) -> Space:
        for space in self._spaces.values():
            if event_id in space.events:
                return space
        raise KeyError(f"none of the namespaces {', '.join(map(repr, self._spaces))} holds the event {event_id}")


class Spaces:
    """The namespaces asked for lately. Beyond `max_bytes` of voter keys, or `MAX_SPACES`, the least recently used are
    dropped."""

    def __init__(
        self,
        geometry: Geometry,
        voters: Voters,
        store: Store,
        max_bytes: float,
        counters: Counter[str],
        device: torch.device | str = "cpu",
        vocabulary: Vocabulary | None = None,
    ) -> None:
        """`counters` is where events that cannot be read are counted (`corrupt_events`). Indices are kept on `device`:
        on a GPU, where there are many keys, in 8 bits. `vocabulary` tells words; without it, a token is one."""
        self.counters = counters
        self._vocabulary = vocabulary
        self._geometry = geometry
        self._voters = voters
        self._device = torch.device(device)
        if self._device == torch.device("cuda"):
            # Other threads add events, and have a current device of their own.
            self._device = torch.device("cuda", torch.cuda.current_device())
        self._store = store
        self._max_bytes = max_bytes
        self._spaces: OrderedDict[str, Space] = OrderedDict()
        # By namespace, as of the last time it was asked for: measuring all of them each time would cost every request.
        self._sizes: dict[str, int] = {}
        self._num_bytes = 0
        self._lock = threading.RLock()

    def get(self, namespace: str) -> Space:
        """The space of a namespace as the store has it now; events that cannot be read are counted and left out."""
        with self._lock:
            space = self._spaces.get(namespace)
            if space is None:
                index = self._index()
                lexicon = Lexicon(self._vocabulary)
                space = Space(index=index, geometry=self._geometry, voters=self._voters, lexicon=lexicon)
            self._follow(namespace, space)
            self._spaces[namespace] = space
            self._spaces.move_to_end(namespace)
            size = space.num_bytes
            self._num_bytes += size - self._sizes.get(namespace, 0)
            self._sizes[namespace] = size
            while len(self._spaces) > 1 and (self._num_bytes > self._max_bytes or len(self._spaces) > MAX_SPACES):
                dropped, _ = self._spaces.popitem(last=False)
                self._num_bytes -= self._sizes.pop(dropped)
            return space

    def _index(self) -> Index:
        form: KeyForm = "int8" if self._device.type == "cuda" else "bfloat16"
        return Index(self._geometry, self._voters, form=form, device=self._device, max_bytes=self._max_bytes)

    def forget(self, namespace: str, ids: Iterable[str]) -> None:
        """Take events out at once, as far as their namespace is in memory."""
        with self._lock:
            space = self._spaces.get(namespace)
            if space is not None:
                for event_id in ids:
                    space.remove(event_id)

    def unlink(self, namespace: str, link: Link) -> None:
        """Let go of a link at once, as far as its namespace is in memory."""
        with self._lock:
            if namespace in self._spaces:
                self._spaces[namespace].unlink(link)

    def _follow(self, namespace: str, space: Space) -> None:
        """Take in what changed since the space was last asked for, whichever process changed it."""
        changes = self._store.changes(namespace, space.number)
        if changes.number != space.number:
            space.link_anew(self._store.links(namespace))
        if changes.held is not None:
            space.keep(changes.held)
        for event, keys in self._keys([event for event in changes.events if event.id not in space.events]):
            if isinstance(keys, torch.Tensor):
                space.add(event, keys)
            elif not isinstance(keys, KeyError):  # that one is forgotten since
                self.counters["corrupt_events"] += 1
                logger.warning("event left out of the index: %s", keys)
        space.number = changes.number

    def _keys(self, events: Sequence[Event]) -> Iterator[tuple[Event, torch.Tensor | Exception]]:
        """Keys at the voters' layers of each event, or why it has none; side by side where the store gains by that."""
        slots = self._voters.slots(self._geometry)

        def read(event: Event) -> torch.Tensor | Exception:
            try:
                return self._store.keys_of_layers(event.namespace, event.id, slots)
            except (TraceCorruptError, TraceNotKeptError, KeyError) as error:
                return error

        num_readers = min(self._store.num_readers, len(events))
        if num_readers < 2:
            yield from ((event, read(event)) for event in events)
            return
        with ThreadPoolExecutor(num_readers) as pool:
            yield from zip(events, pool.map(read, events), strict=True)
