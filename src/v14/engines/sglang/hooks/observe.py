"""A request ends: what it read and wrote is copied off while its KV slots are still its own, and becomes events.

Aborted requests take the same door. A request that is only put back into the queue (retraction) comes here again at its
end.
"""

from typing import Any

from v14.engines.sglang import runtime, seams
from v14.engines.sglang.harvest import Harvest
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime


def store_finished(req: Any, tree_cache: Any, *args: Any, **kwargs: Any) -> None:
    """Store the new events of a finished request."""
    engine = runtime.current()
    reading: Reading | None = getattr(req, "v14_reading", None)
    if engine is None or reading is None or reading.is_stored:
        return
    if not req.finished() or seams.kv_row(req) is None:
        return
    engine.probing.pop(req.rid, None)
    if reading.again is not None or not reading.ticket.writes:
        return
    reading.is_stored = True
    with engine.memory.guard("observe"):
        _observe(engine, reading, req)


def _observe(engine: Runtime, reading: Reading, req: Any) -> None:
    sequence_len = len(reading.sequence.token_ids)
    committed = seams.owned_length(req)
    if committed < sequence_len:
        return
    token_ids = list(reading.token_ids)
    positions = list(reading.sequence.positions)
    if engine.memory.profile.options.write_generated:
        written = list(req.output_ids)[: committed - sequence_len]
        token_ids += written
        positions += range(sequence_len, sequence_len + len(written))
    cuts = reading.session.unknown(token_ids, reading.ticket.chat_id)
    if not cuts:
        return
    runs = [(positions[cut.start], positions[cut.start] + cut.event.num_tokens) for cut in cuts]
    harvest = Harvest(engine.kv_pool, engine.memory.profile.geometry, engine.slots(req, committed), runs)
    read_engram = None if reading.recording is None else reading.recording.engram

    def keep() -> None:
        with engine.memory.guard("observe"):
            harvest.wait()
            engrams = [engine.memory.engram(start, end, read_engram, harvest.dtype) for start, end in runs]
            traces = (harvest.trace(index, engram) for index, engram in enumerate(engrams))
            reading.session.keep([(cut.event, trace) for cut, trace in zip(cuts, traces, strict=True)])

    engine.write_behind(reading.session.namespace, keep)
