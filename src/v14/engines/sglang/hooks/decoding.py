"""Looks at what a reply asks for, and the way back of a request that recalls something (`decoding.py`)."""

from typing import Any

from v14.engines.sglang import decoding, retraction, runtime
from v14.engines.sglang.reading import Reading


def look(result: Any, req: Any, new_accepted_len: int = 1) -> Any:
    """A request has one token more: now and then, look. Called for every token: quick where there is nothing to do."""
    reading: Reading | None = getattr(req, "v14_reading", None)
    if reading is None or reading.later is None or len(req.output_ids) < reading.later.next_at:
        return result
    engine = runtime.current()
    if engine is not None and not req.finished() and req.to_finish is None:
        with engine.memory.guard("look"):
            decoding.look(engine, req, reading, reading.later)
    return result


def read_again(scheduler: Any, batch: Any) -> None:
    """The next pass would decode: requests that recalled something leave it, and are read again behind that.

    SGLang retracts here as well: a token of theirs that is on its way is dropped when it comes, and told to nobody.
    """
    engine = runtime.current()
    if engine is None or not engine.due:
        return
    readings: dict[int, Reading] = {}
    for place, req in enumerate(batch.reqs):
        if engine.due.pop(req.rid, None) is not None:
            with engine.memory.guard("later"):
                reading = decoding.again(engine, req)
                if reading is not None:
                    readings[place] = reading
    if not readings:
        return
    reqs = {place: batch.reqs[place] for place in readings}
    retraction.retract(scheduler, batch, readings)
    for place, reading in reversed(readings.items()):
        decoding.go_on(engine, reqs[place], reading)
