"""A request ends: what it read and wrote is copied off while its KV slots are still its own, and becomes events.

Aborted requests take the same door. A request that is only put back into the queue (retraction) comes here again at its
end.
"""

import logging
from typing import Any

from v14.engines.sglang import runtime, seams
from v14.engines.sglang.harvest import Run, harvested
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.telling import RUNS
from v14.events.cut import Cut

logger = logging.getLogger("v14")


def store_finished(req: Any, tree_cache: Any, *args: Any, **kwargs: Any) -> None:
    """Store the new events of a finished request."""
    engine = runtime.current()
    reading: Reading | None = getattr(req, "v14_reading", None)
    if engine is None or reading is None or reading.is_stored:
        return
    if not req.finished() or seams.kv_row(req) is None:
        return
    engine.probing.pop(req.rid, None)
    if reading.again is not None:
        return
    reading.is_stored = True
    if reading.ticket.writes:
        with engine.memory.guard("observe"), reading.session.clock.measure("observe"):
            if _observe(engine, reading, req):
                return
    _profile(reading)


def _profile(reading: Reading) -> None:
    """A request is over, its events made: where its time went."""
    reading.session.account.over()
    if reading.session.memory.switches.profile:
        logger.info("profile request=%s %s", reading.session.account.request_id or "-", reading.session.clock)


def _observe(engine: Runtime, reading: Reading, req: Any) -> bool:
    """Copy off what is new; False if there is nothing. What is copied becomes events in the background."""
    committed = seams.owned_length(req)
    if committed < len(reading.sequence.token_ids):
        return False
    cuts: list[Cut] = []
    runs = engine.ranks.told(RUNS, lambda: _runs(engine, reading, req, committed, cuts))
    if not runs:
        return False
    harvest = harvested(engine, engine.slots(req, committed), runs)
    if harvest is None:
        return False
    read_engram = None if reading.recording is None else reading.recording.engram

    def keep() -> None:
        with engine.memory.guard("observe"), reading.session.clock.measure("keep"):
            harvest.wait()
            engrams = [engine.memory.engram(start, end, read_engram, harvest.dtype) for start, end in runs]
            traces = [(cut.event, harvest.trace(index, engrams[index])) for index, cut in enumerate(cuts)]
            views = harvest.views()
            ids = [cut.event.id for cut in cuts]
            reading.session.keep(traces, None if views is None else dict(zip(ids, views, strict=True)))
        _profile(reading)

    engine.write_behind(reading.session.namespace, keep)
    return True


def _runs(engine: Runtime, reading: Reading, req: Any, committed: int, cuts: list[Cut]) -> list[Run]:
    """Where the events that are not known yet stand in the sequence; they are added to `cuts`."""
    sequence_len = len(reading.sequence.token_ids)
    token_ids = list(reading.token_ids)
    positions = list(reading.sequence.positions)
    if engine.memory.profile.options.write_generated:
        written = list(req.output_ids)[: committed - sequence_len]
        token_ids += written
        positions += range(sequence_len, sequence_len + len(written))
    cuts += reading.new_events(token_ids)
    return [(positions[cut.start], positions[cut.start] + cut.event.num_tokens) for cut in cuts]
