"""Everything remembered by one set of weights, for one process."""

import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import torch

from v14.clock import Listener
from v14.config import Switches
from v14.engram import compress
from v14.errors import StoreError
from v14.explain import Records
from v14.memory.keeping import GIB, keeping_of
from v14.memory.session import ReadEngram, Session
from v14.namespaces import DEFAULT_NAMESPACE
from v14.profile import Profile
from v14.recall.space import Space, Spaces
from v14.reinstate.cost import CostBook, Way
from v14.reinstate.journal import Journal
from v14.reinstate.transcripts import Transcripts
from v14.store.contract import Store
from v14.store.master import master_key
from v14.store.opening import open_store
from v14.types import Engram

logger = logging.getLogger("v14")


class Memory:
    """Everything remembered by one set of weights, for one process."""

    def __init__(
        self,
        profile: Profile,
        switches: Switches,
        store: Store | None,
        reason: str = "",
        *,
        device: torch.device | str = "cpu",
    ) -> None:
        """`device` is where votes are taken."""
        self.profile = profile
        self.switches = switches
        self.counters: Counter[str] = Counter()
        self.listeners: list[Listener] = []
        self.records = Records()
        self.transcripts = Transcripts()
        self.journal = Journal()
        self.costs = CostBook()
        self.cutter = profile.cutter
        self.asks = profile.asking
        self.device = torch.device(device)
        self.reason = reason
        self._store = store
        self._spaces: Spaces | None = None
        if store is not None:
            max_bytes = switches.max_buffer_gb * GIB
            self._spaces = Spaces(
                profile.geometry, profile.voters, store, max_bytes, self.counters, device, profile.vocabulary
            )
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        profile: Profile,
        switches: Switches,
        *,
        store: Store | None = None,
        device: torch.device | str = "cpu",
    ) -> "Memory":
        """Open the store under `switches.memory_home`, unless one is given; `device` is where votes are taken.

        A store that cannot be opened leaves a memory that is not `available`: the server serves without it. An
        encrypted one without its key raises `StoreKeyError`.
        """
        if store is None:
            master = master_key(switches)
            try:
                store = open_store(
                    switches.memory_home, profile.weights_id, keeping=keeping_of(profile, switches), master=master
                )
            except StoreError as error:
                logger.error("memory is off: %s", error)
                memory = cls(profile, switches, None, str(error))
                memory.counters["store_unavailable"] += 1
                return memory
        return cls(profile, switches, store, device=device)

    @property
    def available(self) -> bool:
        """Whether there is a store to recall from and to write to."""
        return self._store is not None

    @property
    def store(self) -> Store:
        """The store. Raises `StoreError` when there is none."""
        if self._store is None:
            raise StoreError(self.reason)
        return self._store

    def session(
        self, namespace: str = DEFAULT_NAMESPACE, shared: Sequence[str] = (), *, request_id: str = ""
    ) -> "Session":
        """The view that a request of `namespace` has, which may read the namespaces `shared` as well.

        A request that has an id can be explained later (`records`).
        """
        return Session(self, namespace, shared, request_id)

    def space(self, namespace: str) -> Space:
        """The events of a namespace and the index that votes on them. Raises `StoreError` when there is no store."""
        if self._spaces is None:
            raise StoreError(self.reason)
        return self._spaces.get(namespace)

    def forget(self, namespace: str, ids: Collection[str], *, selection: str = "event", requested_by: str = "") -> int:
        """Take events of a namespace out of all that is kept here, in memory and on disk; returns how many there were.

        What is being read at the moment may come to be stored later: the caller ends or waits for it first. `selection`
        and `requested_by` go into the store's audit. Raises `StoreError` when the store cannot do it; the events are
        then not recalled any more until the next start.
        """
        self.drop(namespace, ids)
        num_events = self.store.forget(namespace, ids, selection=selection, requested_by=requested_by)
        self.counters["events_forgotten"] += num_events
        return num_events

    def unlink(self, namespace: str, later: str, earlier: str) -> int:
        """Take back that one event supersedes another, from now on and on disk soon after: how many links that were.

        Both stand for themselves again. Raises `StoreError` when there is no store.
        """
        found = [
            link
            for link in self.store.links(namespace)
            if (link.source, link.target, link.kind) == (later, earlier, "supersedes")
        ]
        self.store.unlink(namespace, found)
        for link in found:
            if self._spaces is not None:
                self._spaces.unlink(namespace, link)
        return len(found)

    def drop(self, namespace: str, ids: Collection[str]) -> None:
        """Take events of a namespace out of what is kept beside the store."""
        if self._spaces is not None:
            self._spaces.forget(namespace, ids)
        self.transcripts.forget(namespace, ids)
        self.journal.forget(namespace, ids)
        self.records.forget(namespace, ids)

    def way(self, num_tokens: int) -> Way:
        """How to bring back a span of `num_tokens`: as the options say, `auto` by what `costs` was told.

        A model of which a trace is not all that an event leaves (`Geometry.placeable`) always reads again.
        """
        wanted = self.profile.options.reinstate if self.profile.geometry.placeable else "reread"
        return self.costs.choose(num_tokens) if wanted == "auto" else wanted

    def engram(
        self, start: int, end: int, read_engram: ReadEngram | None, dtype: torch.dtype | None = None
    ) -> Engram | None:
        """The engram to keep of sequence positions [start, end), at the options' rank in `dtype`; None for rank 0."""
        rank = self.profile.options.engram_rank
        if read_engram is None or rank == 0:
            return None
        engram = read_engram(start, end)
        return None if engram is None else compress(engram, rank, dtype=dtype)

    @contextmanager
    def guard(self, concern: str) -> Iterator[None]:
        """Whatever fails inside is counted under `concern` and logged; the request goes on without it.

        What a store says of itself (its disk is gone, say) is one line; of anything else the log has the traceback.
        """
        try:
            yield
        except Exception as error:
            with self._lock:
                self.counters[f"failed_{concern}"] += 1
            known = isinstance(error, StoreError)
            logger.error("%s failed, the request goes on without it: %s", concern, error, exc_info=not known)

    def close(self) -> None:
        """Commit what is pending and close the store."""
        if self._store is not None:
            self._store.close()
