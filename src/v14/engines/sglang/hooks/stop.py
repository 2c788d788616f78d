"""A pass that reads only requests which are all read again ends behind the last voter layer.

    layers     0 … last voter layer      the rest
    of use     the cue's queries         nothing, once every request of the pass is known to recall something

The plans are made in the middle of the pass, as soon as the last voter has read. Where all of them recall, the pass is
left by an exception and its requests end as if it had been read: with a token that nobody is told, and with KV that
nobody may use. A pass with a request that recalls nothing goes on, and nothing was read twice.
"""

from typing import Any

from v14.engines.sglang import cues, planning, runtime, seams
from v14.engines.sglang.passes import Pass, passes
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

HEAD_WORTH = 1024
"""Tokens in front of the new part from which on it pays to keep what the first reading computed of them."""


class Unheard(BaseException):
    """Ends a forward pass of which nothing more is of use: no error, so nobody's `except Exception` stops it.

    `in_graphs` says whether the pass ran in CUDA graphs.
    """

    def __init__(self, *, in_graphs: bool) -> None:
        super().__init__()
        self.in_graphs = in_graphs


def may_stop(engine: Runtime, batch: Any) -> tuple[Pass, ...]:
    """The shares of a pass that may end early, if it may: each ends the first reading of a request that looks."""
    if seams.asks_for_more(batch):
        return ()
    parts = tuple(passes(batch))
    return parts if parts and all(_may_stop(engine, part) for part in parts) else ()


def _may_stop(engine: Runtime, part: Pass) -> bool:
    req = engine.probing.get(part.rid)
    if req is None or part.end < len(req.v14_reading.sequence.token_ids):
        return False
    reading: Reading = req.v14_reading
    if reading.beside is not None:
        return reading.span_at is None
    # A trace is placed behind a head that is in the prefix cache; a head that is not would be lost.
    most = 0 if engine.reinstate == "kv" else HEAD_WORTH
    return max(0, reading.new_position - part.start) <= most


def stop_behind_voters(
    result: Any,
    backend: Any,
    q: Any = None,
    k: Any = None,
    v: Any = None,
    layer: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """An attention layer has read: behind the last voter's, make the plans, and leave the pass if all recall."""
    engine = runtime.current()
    if engine is None or not engine.hearing or layer is None or layer.layer_id != engine.last_voter_layer:
        return result
    heard, engine.hearing = engine.hearing, ()
    stopped = False
    with engine.memory.guard("stop"):
        stopped = _all_recall(engine, heard)
    if stopped:
        raise Unheard(in_graphs=seams.in_prefill_graph())
    return result


def _all_recall(engine: Runtime, heard: tuple[Pass, ...]) -> bool:
    """Whether all requests of the pass recall something, or are only looks, whose plans are made later; the first that
    does neither spares the others' plans for later."""
    readings: list[Reading] = []
    for part in heard:
        req = engine.probing.pop(part.rid)
        reading: Reading = req.v14_reading
        with engine.memory.guard("cue"):
            cues.keep(engine, reading, engine.slots(req, part.end))
        if reading.beside is None and not planning.plan(engine, reading):
            return False
        readings.append(reading)
    for reading in readings:
        reading.is_stopped = True
    engine.memory.counters["passes_stopped"] += 1
    engine.last_stopped = True
    return True


def process_at_once(scheduler: Any, **kwargs: Any) -> Arguments | None:
    """The scheduler asks what to run next: a pass that was stopped is processed first.

    With overlap scheduling its result would be processed behind the next pass, for which its requests would decode.
    """
    engine = runtime.current()
    if engine is None or not engine.last_stopped:
        return None
    engine.last_stopped = False
    last = seams.take_last_result(scheduler)
    if last is None:
        return None
    scheduler.process_batch_result(*last)
    return (scheduler,), {**kwargs, "last_batch": None}


def release_unread(req: Any, tree_cache: Any, *args: Any, **kwargs: Any) -> Arguments | None:
    """A request whose reading was stopped gives its slots back: what is in them goes into no prefix cache."""
    reading: Reading | None = getattr(req, "v14_reading", None)
    if reading is None or not reading.is_stopped:
        return None
    return (req, tree_cache), seams.kept_from_cache(kwargs)
