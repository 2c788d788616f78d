"""What reading spans again costs, for `reinstate: auto`."""

from typing import Any

from v14.engines.sglang import runtime, seams
from v14.engines.sglang.passes import passes
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime


def begin_pass(runner: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> None:
    """A forward pass begins."""
    engine = runtime.current()
    if engine is None or engine.timer is None:
        return
    engine.timer.begun = None
    if seams.reads_prompts(runner, forward_batch):
        with engine.memory.guard("cost"):
            engine.timer.begin(engine.scheduler.device)


def end_pass(output: Any, runner: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> None:
    """A forward pass ends, or is queued."""
    engine = runtime.current()
    if engine is None or engine.timer is None or engine.timer.begun is None:
        return
    with engine.memory.guard("cost"):
        num_tokens = sum(forward_batch.extend_seq_lens_cpu)
        for size, seconds in engine.timer.end(engine.scheduler.device, num_tokens, _spans(engine, forward_batch)):
            engine.memory.costs.note("reread", size, seconds)


def _spans(engine: Runtime, batch: Any) -> list[int]:
    """Sizes of the spans that a pass reads again whole."""
    spans = []
    for part in passes(batch):
        req = engine.rereading.get(part.rid)
        if req is None:
            continue
        reading: Reading = req.v14_reading
        for placement, begin in zip(reading.placements, reading.sequence.starts, strict=True):
            size = sum(event.num_tokens for event in reading.session.events(placement))
            if part.start <= begin and begin + size <= part.end:
                spans.append(size)
    return spans
