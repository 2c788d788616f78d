"""Reading a prompt with memory: look first, recall, and leave the cache where generation goes on.

    cache after the probe    [head][new part]
    nothing recalled         [head][new part without its last token]      generate reads 1 token
    recalled                 [head][span]                                 generate reads the new part behind the span

Earlier turns' spans stand inside the head, where they stood when those turns were read.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from v14.engines.transformers.attention import Capture, capture_queries
from v14.engines.transformers.cache import MemoryCache
from v14.memory import Session
from v14.recall.cue import build_cue, gather
from v14.reinstate.layout import SpannedSequence
from v14.reinstate.transcripts import Placement
from v14.types import Cue, Plan


@dataclass(kw_only=True)
class Clock:
    """Seconds spent, by concern."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def measure(self, concern: str) -> Iterator[None]:
        """Add the time inside to `concern`."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[concern] += time.perf_counter() - begin


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """A prompt as the model is to see it. `cache` holds the first tokens of `sequence`, never all of them."""

    sequence: SpannedSequence
    placements: tuple[Placement, ...]
    cache: MemoryCache
    plan: Plan


def read_plain(session: Session, token_ids: Sequence[int], reason: str) -> Reading:
    """The prompt alone, nothing of it read yet."""
    return Reading(
        sequence=SpannedSequence(token_ids=tuple(token_ids), positions=tuple(range(len(token_ids))), starts=()),
        placements=(),
        cache=MemoryCache(session.memory.profile.geometry),
        plan=Plan(reason=reason),
    )


def read_with_memory(
    model: Any, session: Session, token_ids: Sequence[int], clock: Clock, room_tokens: int | None = None
) -> Reading:
    """Probe the prompt, plan, and place the span of what is recalled (at most `room_tokens` tokens)."""
    profile = session.memory.profile
    layout = session.layout(token_ids)
    if session.is_empty() and not layout.placements:
        return read_plain(session, token_ids, "nothing is stored")
    sequence = session.sequence(token_ids, layout.placements)
    cache = MemoryCache(profile.geometry)
    with clock.measure("probe"):
        start = sequence.positions[layout.new_start]
        _read_head(model, session, cache, sequence, layout.placements)
        num_queries = min(len(sequence.token_ids) - start, profile.options.cue_tokens)
        with capture_queries(profile.voters.layers, num_queries) as capture:
            forward(model, cache, sequence.token_ids)
        cue = _cue(session, cache, capture, start)
    with clock.measure("plan"):
        plan = session.plan(cue, token_ids, layout, room_tokens)
    if not plan.events:
        cache.truncate(len(sequence.token_ids) - 1)
        return Reading(sequence=sequence, placements=layout.placements, cache=cache, plan=plan)
    with clock.measure("reinstate"):
        placements = session.placed(layout, plan)
        sequence = session.sequence(token_ids, placements)
        cache.truncate(sequence.starts[-1])
        _place(model, session, cache, placements[-1])
    return Reading(sequence=sequence, placements=placements, cache=cache, plan=plan)


def forward(model: Any, cache: MemoryCache, token_ids: Sequence[int], logits_to_keep: int = 1) -> torch.Tensor:
    """Read those of `token_ids` that the cache does not hold yet; the last logits `[logits_to_keep, vocabulary]`."""
    done = cache.get_seq_length()
    ids = torch.tensor([token_ids[done:]], device=model.device)
    positions = torch.arange(done, len(token_ids), device=model.device)[None]
    output = model(
        input_ids=ids, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=logits_to_keep
    )
    logits: torch.Tensor = output.logits[0]
    return logits


def _read_head(
    model: Any, session: Session, cache: MemoryCache, sequence: SpannedSequence, placements: Sequence[Placement]
) -> None:
    """Read up to the last earlier span, placing each where it stood; without spans, read nothing."""
    for placement, start in zip(placements, sequence.starts, strict=True):
        if cache.get_seq_length() < start:
            forward(model, cache, sequence.token_ids[:start])
        _place(model, session, cache, placement)


def _place(model: Any, session: Session, cache: MemoryCache, placement: Placement) -> None:
    """Append a span's stored trace. Where that is not wanted, or fails, its tokens are read again with what follows."""
    memory = session.memory
    if memory.profile.options.reinstate == "kv":
        with memory.guard("reinstate"):
            cache.append(session.span(placement, cache.get_seq_length()), model.device, model.dtype)


def _cue(session: Session, cache: MemoryCache, capture: Capture, start: int) -> Cue:
    """The cue of the new part, which begins at position `start` and has just been read."""
    geometry, voters = session.memory.profile.geometry, session.memory.profile.voters
    read = {layer: cache.layers[geometry.slot(layer)].keys[0].transpose(0, 1).cpu() for layer in voters.layers}
    queries, keys = gather(capture, read, geometry, voters)
    first_query = cache.get_seq_length() - queries.shape[1]
    return build_cue(queries, keys, geometry, voters, first_query=first_query, start=start)
