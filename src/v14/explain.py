"""Why a request recalled what it did: one record for each plan, kept for a while and found by the request's id.

A record holds what the request itself said, so it is as private as the namespace: whoever asks has to name that, and
when something of the namespace is forgotten, its records go as well.
"""

import logging
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch

from v14.clock import Clock, Listener
from v14.config import Options
from v14.types import Event, Plan, Vote

logger = logging.getLogger("v14")

MAX_RECORDS = 1024
MAX_TOKENS = 4_000_000
"""Bound of the prompts that are kept, all records together: 4 bytes a token, and as much again for a cue's weights."""

MAX_DUE = 256
"""Records that may be due: they keep the cues of their plans."""

Decode = Callable[[Sequence[int]], str]

Key = tuple[str, str]
"""Namespace and request id."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A span as it was read: in front of token `index` of the prompt, at `position` of what the engine read.

    `way` is `kv` (placed), `reread` (its tokens read again), or `cached` (it stood in the prefix cache already).
    `composed` are those of its events whose engram was composed into the recurrent states.
    """

    index: int
    position: int
    num_tokens: int
    event_ids: tuple[str, ...]
    way: str
    composed: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Record:
    """One request's plan and what came of it.

    `token_ids` is the client's own prompt; its new part begins at `new_start`, the cue at `cue_start`. `weights[id]`
    says of an event how much of its vote each token of the cue gave (`v14.recall.weights`). `seconds`, `standing` and
    `written` are the live times, spans and number of written tokens (one entry, none before its end) of the request's
    account: they go on filling while it is served.
    """

    request_id: str
    namespace: str
    token_ids: "array[int]"
    new_start: int
    cue_start: int
    plan: Plan
    options: Options
    weights: Mapping[str, "array[float]"]
    seconds: Mapping[str, float]
    at: float = field(default_factory=time.time)
    standing: Mapping[int, Standing] = field(default_factory=dict)
    written: Sequence[int] = ()

    @property
    def key(self) -> Key:
        """What it is found by."""
        return self.namespace, self.request_id

    def to_json(self) -> dict[str, Any]:
        """As plain values; `in_words` adds the text."""
        plan, options = self.plan, self.options
        votes = {vote.event_id: vote.value for vote in plan.votes}
        recalled = {event.id for event in plan.events}
        why = dict(zip((event.id for event in plan.events), plan.why, strict=False))
        return {
            "id": self.request_id,
            "namespace": self.namespace,
            "at": self.at,
            "prompt": {
                "token_ids": list(self.token_ids),
                "new_start": self.new_start,
                "cue_start": self.cue_start,
                "cue": self._cue(),
            },
            "votes": [_vote(vote, vote.event_id in recalled) for vote in plan.votes],
            "thresholds": {
                "floor": options.recall_floor,
                "sure": options.recall_sure,
                "ratio": options.recall_ratio,
                "max_events": options.recall_max_events,
                "budget_tokens": options.recall_budget_tokens,
            },
            "recalled": [
                described(event, votes.get(event.id)) | {"why": why.get(event.id), "token_ids": list(event.token_ids)}
                for event in plan.events
            ],
            "reason": plan.reason,
            "spans": [_span(span) for span in list(self.standing.values())],
            "num_written": next(iter(self.written), None),
            "ms": {part: round(spent * 1e3, 3) for part, spent in dict(self.seconds).items()},
        }

    def _cue(self) -> list[dict[str, Any]]:
        """The cue's tokens with what each of them gave to the votes."""
        tokens = self.token_ids[self.cue_start :]
        rows = []
        for place, token in enumerate(tokens):
            given = {event_id: round(weights[place], 6) for event_id, weights in self.weights.items()}
            rows.append({"token_id": token, "weight": round(sum(given.values()), 6), "weights": given})
        return rows


def _vote(vote: Vote, is_recalled: bool) -> dict[str, Any]:
    return {"event_id": vote.event_id, "value": vote.value, "recalled": is_recalled}


def _span(span: Standing) -> dict[str, Any]:
    return vars(span) | {"event_ids": list(span.event_ids), "composed": list(span.composed)}


def described(event: Event, vote: float | None) -> dict[str, Any]:
    """What is told of a recalled event beside its words, as plain values; `vote` is None where none led to it."""
    return {
        "id": event.id,
        "namespace": event.namespace,
        "chat_id": event.chat_id,
        "role": event.role,
        "said_at": event.said_at,
        "num_tokens": event.num_tokens,
        "vote": vote,
    }


def in_words(told: dict[str, Any], decode: Decode) -> dict[str, Any]:
    """A record's plain values with the text of the cue's tokens and of the events that were recalled."""
    prompt = told["prompt"]
    cue = [{**row, "text": decode([row["token_id"]])} for row in prompt["cue"]]
    recalled = [{**event, "text": decode(event["token_ids"])} for event in told["recalled"]]
    return {**told, "prompt": {**prompt, "cue": cue}, "recalled": recalled}


class Records:
    """The records of the last requests, by namespace and request id. Safe to use from several threads.

    A client may choose its requests' ids: those of two namespaces never get into each other's way.
    """

    def __init__(self, max_records: int = MAX_RECORDS, max_tokens: int = MAX_TOKENS) -> None:
        self._records: OrderedDict[Key, Record] = OrderedDict()
        self._max_records, self._max_tokens = max_records, max_tokens
        self._num_tokens = 0
        self._lock = threading.Lock()
        self._due: OrderedDict[Key, Callable[[], Record]] = OrderedDict()
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="v14-explain")
        self._made: Future[None] | None = None

    def keep_later(self, key: Key, make: Callable[[], Record]) -> None:
        """Make and keep a record once its request is over (`over`), or is asked for: until then its time is dear.

        Whoever asks for records, or forgets some, makes those that are due.
        """
        with self._lock:
            self._due[key] = make
            oldest = next(iter(self._due)) if len(self._due) > MAX_DUE else None
        if oldest is not None:
            self.over(oldest)

    def over(self, key: Key) -> None:
        """A request is over: its record, if it is to have one, is made in the background."""
        with self._lock:
            make = self._due.pop(key, None)
            if make is not None:
                self._made = self._maker.submit(self._make, make)

    def _make(self, make: Callable[[], Record]) -> None:
        try:
            self.keep(make())
        except Exception:
            logger.exception("a plan's record could not be made; it cannot be explained")

    def _settle(self) -> None:
        with self._lock:
            due, self._due = self._due, OrderedDict()
            made = self._made
        # One thread makes them in their order: with the last, all are made.
        if made is not None:
            made.result()
        for make in due.values():
            self._make(make)

    def keep(self, record: Record) -> None:
        """Keep a record; the oldest make room. One of a known id takes the place of the other."""
        with self._lock:
            self._drop(record.key)
            self._records[record.key] = record
            self._num_tokens += len(record.token_ids)
            while len(self._records) > self._max_records or self._num_tokens > self._max_tokens:
                self._drop(next(iter(self._records)))

    def find(self, request_id: str, namespace: str) -> Record:
        """The record of a request. Raises `KeyError`, alike for an id not known and for one of another namespace."""
        self._settle()
        with self._lock:
            return self._records[namespace, request_id]

    def of(self, namespace: str) -> list[Record]:
        """The records of a namespace, newest first."""
        self._settle()
        with self._lock:
            found = [record for record in self._records.values() if record.namespace == namespace]
        return sorted(found, key=lambda record: -record.at)

    def forget(self, namespace: str, event_ids: Collection[str] | None = None) -> int:
        """Drop the records of a namespace, and every other that recalled one of the events; returns how many.

        What was forgotten may stand in any prompt of its namespace, so all of those go.
        """
        gone = frozenset(event_ids or ())
        self._settle()
        with self._lock:
            found = [
                key
                for key, record in self._records.items()
                if record.namespace == namespace or gone.intersection(event.id for event in record.plan.events)
            ]
            for key in found:
                self._drop(key)
        return len(found)

    def __len__(self) -> int:
        """Number of records."""
        self._settle()
        return len(self._records)

    def _drop(self, key: Key) -> None:
        record = self._records.pop(key, None)
        if record is not None:
            self._num_tokens -= len(record.token_ids)


class Account:
    """What one request costs and what is decided about it, while it is served.

    With `trace` every decision is one line of the log; a request that has an id leaves a record, where there are any.
    """

    def __init__(self, records: Records | None, listeners: list[Listener], request_id: str, *, trace: bool) -> None:
        self.request_id = request_id
        self.clock = Clock(listeners=listeners)
        self.opened = time.perf_counter()
        self.spans: dict[int, Standing] = {}
        """By position. Admission may be tried again and again: what counts is how a span was read first."""
        self._records, self._trace = records, trace
        self._key: Key | None = None
        self._first_token_at: float | None = None
        self._written: list[int] = []

    def decided(
        self,
        namespace: str,
        token_ids: Sequence[int],
        new_start: int,
        plan: Plan,
        options: Options,
        weigh: Callable[[], Mapping[str, torch.Tensor]],
    ) -> None:
        """Note a plan; `weigh` gives the weights of the cue's tokens `[Q]` by event, the cue being the last Q tokens.

        It is called later, and maybe in another thread.
        """
        if self._trace:
            votes = ", ".join(f"{vote.event_id}={vote.value:.3f}" for vote in plan.votes)
            recalled = ", ".join(event.id for event in plan.events)
            logger.info(
                "trace request=%s namespace=%r votes=[%s] floor=%.3f ratio=%g recalled=[%s] reason=%r",
                self.request_id or "-", namespace, votes, options.recall_floor, options.recall_ratio, recalled,
                plan.reason,
            )  # fmt: skip
        if not self.request_id or self._records is None:
            return
        at = time.time()

        def make() -> Record:
            with self.clock.measure("explain"):
                weights = {event_id: array("f", part.tolist()) for event_id, part in weigh().items()}
            return Record(
                request_id=self.request_id,
                namespace=namespace,
                token_ids=array("i", token_ids),
                new_start=new_start,
                cue_start=len(token_ids) - max(map(len, weights.values()), default=0),
                plan=plan,
                options=options,
                weights=weights,
                seconds=self.clock.seconds,
                at=at,
                standing=self.spans,
                written=self._written,
            )

        self._key = namespace, self.request_id
        self._records.keep_later(self._key, make)

    def over(self) -> None:
        """The request is over: what it needed all of the time for is done."""
        if self._key is not None and self._records is not None:
            self._records.over(self._key)

    def spoke(self) -> None:
        """A token is there; the first one counts."""
        if self._first_token_at is None:
            self._first_token_at = time.perf_counter()
            self.clock.add("first_token", self._first_token_at - self.opened)

    def ended(self, num_tokens: int) -> None:
        """The request is over and has written so many tokens; the first call counts."""
        if not self._written:
            self._written.append(num_tokens)
            if self._first_token_at is not None and num_tokens > 1:
                self.clock.add("decode", time.perf_counter() - self._first_token_at)

    def stood(self, standing: Standing) -> bool:
        """Note how a span came to stand where it does; False if that is known."""
        if standing.position in self.spans:
            return False
        self.spans[standing.position] = standing
        if self._trace:
            logger.info(
                "trace request=%s span position=%d tokens=%d way=%s events=[%s] composed=[%s]",
                self.request_id or "-", standing.position, standing.num_tokens, standing.way,
                ", ".join(standing.event_ids), ", ".join(standing.composed),
            )  # fmt: skip
        return True
