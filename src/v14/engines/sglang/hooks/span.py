"""Placing spans in the radix tree before a request is matched.

    sequence   [ head | span | new part ]
    owner        tree   tree   request
    KV          probe  trace   prefill

The tree owns the span's slots like any cached prefix: matching, locking, eviction, retraction and freeing are the
engine's own. Where the head is not in the tree (evicted meanwhile), the span is read as text by the request's own
prefill: `reread`.
"""

from array import array
from typing import Any

import torch
from sglang.srt.mem_cache.base_prefix_cache import InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.common import evict_from_tree_cache
from sglang.srt.mem_cache.radix_cache import RadixKey

from v14.engines.sglang import runtime, seams
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime
from v14.types import Span


def place_before_match(req: Any, tree_cache: Any = None, cow_mamba: bool | None = None) -> None:
    """Make sure that the request's spans are in the tree. Idempotent: admission may be tried again."""
    engine = runtime.current()
    reading: Reading | None = getattr(req, "v14_reading", None)
    if engine is None or reading is None or tree_cache is None or not reading.placements:
        return
    if engine.memory.profile.options.reinstate == "reread":
        return
    with engine.memory.guard("span"):
        for placement, position in zip(reading.placements, reading.sequence.starts, strict=True):
            num_tokens = sum(event.num_tokens for event in reading.session.events(placement))
            cached = _cached_indices(req, tree_cache, reading, position + num_tokens)
            if len(cached) == position + num_tokens:
                continue
            has_head = len(cached) >= position
            if not has_head or not _insert(
                engine, req, tree_cache, reading, reading.session.span(placement, position), cached
            ):
                engine.memory.counters["spans_reread"] += 1
                return
            engine.memory.counters["spans_placed"] += 1


def _key(req: Any, reading: Reading, length: int) -> RadixKey:
    return RadixKey(array("q", reading.sequence.token_ids[:length]), **seams.cache_key(req))


def _cached_indices(req: Any, tree_cache: Any, reading: Reading, length: int) -> torch.Tensor:
    """KV slots of the longest cached prefix of the sequence's first `length` tokens."""
    match = tree_cache.match_prefix(MatchPrefixParams(key=_key(req, reading, length)))
    return seams.matched_slots(tree_cache, match, req.extra_key)


def _insert(engine: Runtime, req: Any, tree_cache: Any, reading: Reading, span: Span, cached: torch.Tensor) -> bool:
    """Write what is not cached of the span into new slots and give them to the tree; False if there is no room."""
    end = span.position + len(span.token_ids)
    done = len(cached)
    allocator = tree_cache.token_to_kv_pool_allocator
    # Eviction must not take the very prefix that the span stands behind.
    head = tree_cache.match_prefix(MatchPrefixParams(key=_key(req, reading, done))).last_device_node
    held = tree_cache.inc_lock_ref(head)
    try:
        evict_from_tree_cache(tree_cache, end - done)
        slots = allocator.alloc(end - done)
    finally:
        tree_cache.dec_lock_ref(head, held.to_dec_params())
    if slots is None:
        return False
    slots = slots.clone()
    pool = engine.kv_pool
    for slot, layer in enumerate(engine.memory.profile.geometry.layers):
        for buffer, part in (
            (pool.get_key_buffer(layer.index), span.keys),
            (pool.get_value_buffer(layer.index), span.values),
        ):
            buffer[slots] = part[slot, done - span.position :].to(device=buffer.device, dtype=buffer.dtype)
    tree_cache.insert(InsertParams(key=_key(req, reading, end), value=torch.cat([cached, slots]), prev_prefix_len=done))
    return True
