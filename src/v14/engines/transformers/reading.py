"""Reading a prompt with memory: look first, recall, and leave the cache where generation goes on.

    cache after the probe    [head][new part]
    nothing recalled         [head][new part without its last token]      generate reads 1 token
    recalled                 [head][span]                                 generate reads the new part behind the span

Earlier turns' spans stand inside the head, where they stood when those turns were read. Keys and values are cut back to
where generation goes on; recurrent states cannot be, so a model that has them is probed in three passes, with its
states noted at both places.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from v14.engines.transformers.attention import Capture, capture_queries
from v14.engines.transformers.cache import MemoryCache, Parts
from v14.engines.transformers.recording import Recording
from v14.memory import Session
from v14.recall.cue import build_cue, gather
from v14.reinstate.cost import Way
from v14.reinstate.layout import SpannedSequence
from v14.reinstate.transcripts import Placement
from v14.types import Cue, Plan, Span


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """A prompt as the model is to see it. `cache` holds the first tokens of `sequence`, never all of them. `way` is how
    the plan's events came to stand there, None where there are none."""

    sequence: SpannedSequence
    placements: tuple[Placement, ...]
    cache: MemoryCache
    plan: Plan
    way: Way | None = None


def new_cache(model: Any, session: Session, *, record: bool = False) -> MemoryCache:
    """An empty cache; with `record`, one that engrams can be read from if the options keep any."""
    profile = session.memory.profile
    mixers = model.v14_mixers if record and profile.options.engram_rank else ()
    return MemoryCache(profile.geometry, model.config, Recording(mixers) if mixers else None)


def read_plain(model: Any, session: Session, token_ids: Sequence[int], reason: str, *, record: bool = False) -> Reading:
    """The prompt alone, nothing of it read yet."""
    return Reading(
        sequence=_unspanned(token_ids),
        placements=(),
        cache=new_cache(model, session, record=record),
        plan=Plan(reason=reason),
    )


def read_with_memory(
    model: Any,
    session: Session,
    token_ids: Sequence[int],
    room_tokens: int | None = None,
    *,
    record: bool = False,
) -> Reading:
    """Probe the prompt, plan, and place the span of what is recalled (at most `room_tokens` tokens)."""
    profile, clock = session.memory.profile, session.clock
    layout = session.layout(token_ids)
    if session.is_empty() and not layout.placements:
        return read_plain(model, session, token_ids, "nothing is stored", record=record)
    sequence = session.sequence(token_ids, layout.placements)
    cache = new_cache(model, session, record=record)
    with clock.measure("probe"):
        start, end = sequence.positions[layout.new_start], len(sequence.token_ids)
        _read_head(model, session, cache, sequence, layout.placements)
        with capture_queries(profile.voters.layers, min(end - start, profile.options.cue_tokens)) as capture:
            for stop in (start, end - 1, end) if cache.has_states else (end,):
                if cache.get_seq_length() < stop:
                    forward(model, cache, sequence.token_ids[:stop])
                cache.checkpoint()
        cue = _cue(session, cache, capture, start)
    with clock.measure("plan"):
        plan = session.plan(cue, token_ids, layout, room_tokens)
    if not plan.events:
        cache.truncate(end - 1)
        return Reading(sequence=sequence, placements=layout.placements, cache=cache, plan=plan)
    with clock.measure("reinstate"):
        placements = session.placed(layout, plan)
        sequence = session.sequence(token_ids, placements)
        cache.truncate(start)
        way = _place(model, session, cache, sequence, placements[-1])
    return Reading(sequence=sequence, placements=placements, cache=cache, plan=plan, way=way)


def read_behind(model: Any, session: Session, token_ids: Sequence[int], span: Span, parts: Parts = "both") -> Reading:
    """A prompt behind a given span and no other, for experiments: nothing is probed, voted or looked up.

    The span stands in front of token `span.position`. With `parts="engram"` only recurrent states know of it, and the
    sequence is the prompt's own. Go on with `model.generate(torch.tensor([reading.sequence.token_ids]),
    past_key_values=reading.cache, v14_memory="off")`.
    """
    cache = new_cache(model, session)
    start = span.position
    if start:
        forward(model, cache, token_ids[:start])
    cache.append(span, model.device, model.dtype, parts)
    sequence = _unspanned(token_ids)
    if parts != "engram":
        sequence = SpannedSequence(
            token_ids=(*token_ids[:start], *span.token_ids, *token_ids[start:]),
            positions=(*range(start), *range(start + len(span.token_ids), len(token_ids) + len(span.token_ids))),
            starts=(start,),
        )
    return Reading(sequence=sequence, placements=(), cache=cache, plan=Plan(reason="given"), way="kv")


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


def _unspanned(token_ids: Sequence[int]) -> SpannedSequence:
    return SpannedSequence(token_ids=tuple(token_ids), positions=tuple(range(len(token_ids))), starts=())


def _read_head(
    model: Any, session: Session, cache: MemoryCache, sequence: SpannedSequence, placements: Sequence[Placement]
) -> None:
    """Read up to the last earlier span, placing each where it stood; without spans, read nothing."""
    for placement, start in zip(placements, sequence.starts, strict=True):
        if cache.get_seq_length() < start:
            forward(model, cache, sequence.token_ids[:start])
        _place(model, session, cache, sequence, placement)


def _place(model: Any, session: Session, cache: MemoryCache, sequence: SpannedSequence, placement: Placement) -> Way:
    """Bring a span behind what is cached, in the way that the options want; returns the way taken.

    A trace that cannot be placed is read again with what follows it.
    """
    memory = session.memory
    begin, start = time.perf_counter(), cache.get_seq_length()
    num_tokens = sum(event.num_tokens for event in session.events(placement))
    way = memory.way(num_tokens)
    if way == "kv":
        cache.checkpoint()
        placed = False
        with memory.guard("reinstate"):
            cache.append(session.span(placement, start), model.device, model.dtype)
            placed = True
        if not placed:
            cache.truncate(start)
            return "reread"
    elif memory.profile.options.reinstate == "auto":
        # Read by itself, not with what follows: otherwise there would be nothing to measure.
        forward(model, cache, sequence.token_ids[: start + num_tokens])
    else:
        return way
    if model.device.type != "cpu":
        torch.accelerator.synchronize()
    memory.costs.note(way, num_tokens, time.perf_counter() - begin)
    return way


def _cue(session: Session, cache: MemoryCache, capture: Capture, start: int) -> Cue:
    """The cue of the new part, which begins at position `start` and has just been read."""
    geometry, voters = session.memory.profile.geometry, session.memory.profile.voters
    read = {layer: cache.layers[layer].keys[0].transpose(0, 1).cpu() for layer in voters.layers}
    queries, keys = gather(capture, read, geometry, voters)
    first_query = cache.get_seq_length() - queries.shape[1]
    return build_cue(queries, keys, geometry, voters, first_query=first_query, start=start)
