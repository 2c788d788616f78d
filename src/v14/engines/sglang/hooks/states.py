"""Recurrent layers: states in front of a prompt's new part go into the prefix cache, engrams of events into the store.

    sequence   [ head | span | new part ]
    states           ▲                     passed while the request looks: computed beside its prefill, kept in the tree
                            ▲              the span's own, advanced from the head's by the events' engrams (span.py)

SGLang keeps states only where a request ended (or at its own checkpoints), and a prefix of the cache counts only as far
as there are states. With those of the head in the tree, a request that is read again begins at its span; without them
all would be read again.
"""

from collections.abc import Callable
from typing import Any

import torch

from v14.engines.sglang import runtime, seams
from v14.engines.sglang.hooks import span, stop
from v14.engines.sglang.passes import passes
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.recording import Noting, Recording
from v14.engines.sglang.recurrent import GatedDeltaRead, LayerRead, Mamba2Read, ShortConvRead, StatePool
from v14.engines.sglang.runtime import Runtime


def begin(req: Any, tree_cache: Any = None, cow_mamba: bool | None = None) -> None:
    """Say what is wanted of a request's states, before its prefix is matched."""
    engine = runtime.current()
    reading: Reading | None = getattr(req, "v14_reading", None)
    if engine is None or engine.states is None or reading is None or reading.recording is not None:
        return
    with engine.memory.guard("states"):
        reading.recording = _recording(engine, engine.states, reading)
        engine.recording[req.rid] = req


def _recording(engine: Runtime, pool: StatePool, reading: Reading) -> Recording:
    if reading.beside is not None:
        return Recording(pool=pool, rank=0, heads=() if reading.span_at is None else (reading.span_at,))
    rank = engine.memory.profile.options.engram_rank
    # Reading a short head again costs less than computing the states behind it, layer by layer.
    worth = 1 if engine.reinstate == "kv" else stop.HEAD_WORTH + 1
    wanted = reading.is_looking and reading.new_position >= worth
    heads = (reading.new_position,) if wanted else ()
    events = []
    if rank and reading.ticket.writes:
        engine.settle(reading.session.namespace)
        events = [
            (reading.sequence.positions[cut.start], reading.sequence.positions[cut.start] + cut.event.num_tokens)
            for cut in reading.new_events(reading.token_ids)
        ]
    return Recording(pool=pool, rank=rank, heads=heads, events=tuple(events))


def compute_event_tokens(max_prefix_len: int, req: Any, input_len: int) -> int:
    """Keep the prefix cache from serving new events behind the spans: what is not computed has no engram. Nor do the
    states in front of a later span follow from what is cached behind it."""
    reading: Reading | None = getattr(req, "v14_reading", None)
    if runtime.current() is None or reading is None or reading.recording is None:
        return max_prefix_len
    behind = [start for start, _ in reading.recording.events if start >= reading.new_position]
    if reading.span_at is not None:
        behind.append(reading.span_at)
    return min([max_prefix_len, *behind])


def watch_forward(runner: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> None:
    """Find out what the recurrent layers are to note in the pass that begins."""
    engine = runtime.current()
    if engine is None or engine.states is None:
        return
    engine.noting = []
    if engine.recording and seams.reads_prompts(runner, forward_batch):
        with engine.memory.guard("states"):
            engine.noting = _noting(engine, engine.states, forward_batch)


def _noting(engine: Runtime, pool: StatePool, batch: Any) -> list[Noting]:
    noting: list[Noting] = []
    for part in passes(batch):
        req = engine.recording.get(part.rid)
        if req is None:
            continue
        recording = req.v14_reading.recording
        runs = recording.runs(part)
        if runs:
            slot = pool.slots(batch.req_pool_indices[part.place : part.place + 1])
            noting.append((recording, part, slot, runs))
    return noting


def read_gated_delta(
    backend: Any, layer: Any, forward_batch: Any, mixed_qkv: torch.Tensor, a: Any, b: Any, **kwargs: Any
) -> None:
    """A Gated DeltaNet layer is about to read."""
    _note(layer.layer_id, lambda: GatedDeltaRead(layer, mixed_qkv, a, b))


def read_mamba2(
    backend: Any, mixer: Any, hidden_states: Any, output: Any = None, layer_id: Any = None, *args: Any, **kwargs: Any
) -> None:
    """A Mamba2 layer is about to read."""
    _note(layer_id, lambda: Mamba2Read(mixer, hidden_states))


def read_short_conv(layer: Any, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> None:
    """A short convolution of LFM2 is about to read."""
    _note(layer.layer_idx, lambda: ShortConvRead(layer, hidden_states))


def _note(layer_id: int, read: Callable[[], LayerRead]) -> None:
    engine = runtime.current()
    if engine is None or engine.states is None or not engine.noting:
        return
    with engine.memory.guard("states"):
        layer = read()
        place = engine.states.stack.indices.index(layer_id)
        for recording, part, slot, runs in engine.noting:
            recording.note(place, layer, part, slot, runs)


def keep_head(req: Any, tree_cache: Any, *args: Any, **kwargs: Any) -> None:
    """A request ends: if it, or what it looks for, is read again, put its head, with the states behind it, into the
    prefix cache."""
    engine = runtime.current()
    reading: Reading | None = getattr(req, "v14_reading", None)
    if engine is None or reading is None or reading.recording is None or not req.finished():
        return
    engine.recording.pop(req.rid, None)
    read_again = reading.again is not None or (reading.beside is not None and reading.beside.rid in engine.due)
    if not read_again or seams.kv_row(req) is None:
        return
    for head in reading.recording.heads:
        if seams.owned_length(req) < head:
            continue
        with engine.memory.guard("head"):
            states = reading.recording.states_at(head)
            if states is not None and span.insert_head(engine, req, tree_cache, reading, head, states):
                engine.memory.counters["heads_kept"] += 1
