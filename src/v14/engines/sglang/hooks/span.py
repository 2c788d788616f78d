"""Placing spans in the radix tree before a request is matched.

    sequence   [ head | span | new part ]
    owner        tree   tree   request
    KV          probe  trace   prefill
    states      probe  engrams prefill     where the model has recurrent layers

The tree owns the span's slots like any cached prefix: matching, locking, eviction, retraction and freeing are the
engine's own. Where the head is not in the tree (evicted meanwhile), the span is read as text by the request's own
prefill: `reread`.

A prefix of a hybrid model counts only as far as a node of the tree carries recurrent states, and a node carries those
at its end. A span is therefore inserted with the states behind it, which follow from the states in front of it and the
events' engrams.
"""

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.common import evict_from_tree_cache
from sglang.srt.mem_cache.radix_cache import RadixKey

from v14.engines.sglang import returning, runtime, seams
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.slots import copy, write
from v14.engines.sglang.transfer import to_device
from v14.engram import advance
from v14.explain import Standing
from v14.reinstate.transcripts import Placement

States = tuple[torch.Tensor, torch.Tensor]
"""Recurrent states `[R, N, P, K]` fp32 and convolution inputs `[R, C, W - 1]`."""


@dataclass(frozen=True, kw_only=True)
class Cached:
    """A prefix of a sequence in the tree: its KV slots `[length]`, and the node it ends at."""

    slots: torch.Tensor
    node: Any

    @property
    def length(self) -> int:
        """Tokens."""
        return len(self.slots)


def place_before_match(req: Any, tree_cache: Any = None, cow_mamba: bool | None = None) -> None:
    """Make sure that the request's spans are in the tree, or are read again.

    Admission may be tried with every pass while a request waits. What could not be placed is not tried again: that
    would read its traces, and evict for them, each time.
    """
    engine = runtime.current()
    reading: Reading | None = getattr(req, "v14_reading", None)
    if engine is None or reading is None or tree_cache is None or not reading.placements:
        return
    with engine.memory.guard("span"):
        known = _cached(req, tree_cache, reading, len(reading.sequence.token_ids)).length
        for placement, position in zip(reading.placements, reading.sequence.starts, strict=True):
            lengths = [event.num_tokens for event in reading.session.events(placement)]
            if position + sum(lengths) <= known:
                _stood(reading, placement, position, sum(lengths), "cached")
                continue
            reading.way = reading.way or returning.way(engine, sum(lengths))
            if reading.way == "reread":
                engine.rereading[req.rid] = req
                _stood(reading, placement, position, sum(lengths), "reread")
                continue
            begun = time.perf_counter()
            reading.way = "reread"
            composed: Sequence[str] | None = None
            edges = list(accumulate(lengths, initial=position))
            try:
                composed = _place(engine, req, tree_cache, reading, placement, edges)
            finally:
                _stood(reading, placement, position, sum(lengths), "reread" if composed is None else "kv", composed)
            if composed is None:
                continue
            reading.way = "kv"
            spent = time.perf_counter() - begun
            reading.session.clock.add("place", spent)
            engine.memory.costs.note("kv", sum(lengths), spent)


def _stood(
    reading: Reading,
    placement: Placement,
    position: int,
    num_tokens: int,
    way: str,
    composed: Sequence[str] | None = None,
) -> None:
    """Note how a span came to stand where it does."""
    standing = Standing(
        index=placement.index,
        position=position,
        num_tokens=num_tokens,
        event_ids=placement.event_ids,
        way=way,
        composed=tuple(composed or ()),
    )
    if reading.session.account.stood(standing):
        reading.session.memory.counters[f"spans_{way}"] += 1


def insert_head(engine: Runtime, req: Any, tree_cache: Any, reading: Reading, head: int, states: States) -> bool:
    """Put a running request's first `head` tokens into the tree with the states behind them.

    Their KV is copied: the request's own slots stay its own, to be given to the tree or freed as the engine does.
    """
    cached = _cached(req, tree_cache, reading, head)
    if cached.length == head:
        return True
    pool, row = engine.kv_pool, engine.slots(req, head)[cached.length :].long()

    def fill(slots: torch.Tensor) -> None:
        engine.used_here(row)
        for layer in engine.memory.profile.geometry.layers:
            for buffer in (pool.get_key_buffer(layer.index), pool.get_value_buffer(layer.index)):
                copy(buffer, slots, row)

    return _insert(engine, req, tree_cache, reading, head, cached, fill, states)


def _place(
    engine: Runtime, req: Any, tree_cache: Any, reading: Reading, placement: Placement, edges: Sequence[int]
) -> Sequence[str] | None:
    """Insert what is missing of a span whose events stand between `edges`; None if it cannot stand there.

    Returns the ids of the events whose engrams were composed into the recurrent states.
    """
    found = _cached(req, tree_cache, reading, edges[-1])
    if found.length == edges[-1]:
        return ()
    states: States | None = None
    composed: Sequence[str] = ()
    if engine.states is not None:
        # States are known at nodes alone: go on behind the last event that one of them ends with.
        at_edges = (_cached(req, tree_cache, reading, edge) for edge in reversed(edges[:-1]) if edge <= found.length)
        known = next((at for at in at_edges if at.length in edges), None)
        if known is None:
            return None
        found, first = known, edges.index(known.length)
        span = returning.span(engine, reading, placement, edges[0])
        states = _behind(engine, tree_cache, found, span.engrams[first:])
        behind = zip(placement.event_ids[first:], span.engrams[first:], strict=True)
        composed = [event_id for event_id, engram in behind if engram is not None]
    elif found.length < edges[0]:
        return None
    else:
        span = returning.span(engine, reading, placement, edges[0])

    def fill(slots: torch.Tensor) -> None:
        keys, values = (
            to_device(part[:, found.length - edges[0] :], slots.device) for part in (span.keys, span.values)
        )
        for slot, layer in enumerate(engine.memory.profile.geometry.layers):
            for buffer, part in (
                (engine.kv_pool.get_key_buffer(layer.index), keys),
                (engine.kv_pool.get_value_buffer(layer.index), values),
            ):
                write(buffer, slots, part[slot])

    return composed if _insert(engine, req, tree_cache, reading, edges[-1], found, fill, states) else None


def _behind(engine: Runtime, tree_cache: Any, head: Cached, engrams: Sequence[Any]) -> States:
    """The states behind events that stand behind a node."""
    assert engine.states is not None
    with engine.behind_forward():
        states, inputs = engine.states.read(seams.state_slot(tree_cache, head.node) if head.length else None)
        return advance(states, inputs, [engine.states.on_device(engram) for engram in engrams])


def _key(req: Any, reading: Reading, length: int) -> RadixKey:
    return RadixKey(array("q", reading.sequence.token_ids[:length]), **seams.cache_key(req))


def _cached(req: Any, tree_cache: Any, reading: Reading, length: int) -> Cached:
    """The longest usable prefix of the sequence's first `length` tokens."""
    match = tree_cache.match_prefix(MatchPrefixParams(key=_key(req, reading, length)))
    return Cached(slots=seams.matched_slots(tree_cache, match, req.extra_key), node=match.last_device_node)


def _insert(
    engine: Runtime,
    req: Any,
    tree_cache: Any,
    reading: Reading,
    end: int,
    cached: Cached,
    fill: Callable[[torch.Tensor], None],
    states: States | None,
) -> bool:
    """Give the tree new KV slots, filled by `fill`, behind what is cached, up to `end`; False if there is no room.

    `states` are those at the end, None for a model that has none.
    """
    taken = _take(engine, tree_cache, cached, end - cached.length)
    if taken is None:
        return False
    slots, state_slot = taken

    def filled() -> None:
        with engine.behind_forward():
            engine.used_here(slots)
            fill(slots)
            if engine.states is not None and state_slot is not None and states is not None:
                engine.states.write(state_slot, *states)

    try:
        engine.ranks.agreed(filled)
    except BaseException:
        _give_back(engine, tree_cache, slots, state_slot)
        raise
    result = tree_cache.insert(
        InsertParams(
            key=_key(req, reading, end),
            value=torch.cat([cached.slots, slots]),
            mamba_value=state_slot,
            prev_prefix_len=cached.length,
        )
    )
    if engine.states is not None and state_slot is not None and result.mamba_exist:
        engine.states.give_back(state_slot)
    return True


def _take(
    engine: Runtime, tree_cache: Any, behind: Cached, num_tokens: int
) -> tuple[torch.Tensor, torch.Tensor | None] | None:
    """Free slots for tokens behind a prefix, and one for their states where the model has any; None without room."""
    allocator = tree_cache.token_to_kv_pool_allocator
    # Eviction must not take the very prefix that the new part stands behind.
    held = tree_cache.inc_lock_ref(behind.node)
    try:
        evict_from_tree_cache(tree_cache, num_tokens)
        slots = allocator.alloc(num_tokens)
        if slots is None:
            return None
        slots = slots.clone()
        if engine.states is None:
            return slots, None
        state_slot: torch.Tensor | None = None
        try:
            state_slot = engine.states.take(tree_cache, EvictParams(num_tokens=0, mamba_num=1))
        finally:
            if state_slot is None:
                allocator.free(slots)
        return None if state_slot is None else (slots, state_slot)
    finally:
        tree_cache.dec_lock_ref(behind.node, held.to_dec_params())


def _give_back(engine: Runtime, tree_cache: Any, slots: torch.Tensor, state_slot: torch.Tensor | None) -> None:
    """Free what the tree never got: SGLang counts its slots when it is idle, and a lost one stops the server."""
    tree_cache.token_to_kv_pool_allocator.free(slots)
    if engine.states is not None and state_slot is not None:
        engine.states.give_back(state_slot)
