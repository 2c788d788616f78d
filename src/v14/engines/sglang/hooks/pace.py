"""When a request had its first token and its last, as the scheduler saw them: for its record, the log and metrics.

A token that is dropped, because the plan that it ended with brings something back, is nobody's first.
"""

from typing import Any

from v14.engines.sglang import runtime
from v14.engines.sglang.reading import Reading


def note_token(req: Any, new_accepted_len: int = 1) -> None:
    """A request has one token more, or several. Called for every token of every request: quick where it knows."""
    reading: Reading | None = getattr(req, "v14_reading", None)
    if reading is not None and reading.again is None:
        reading.session.account.spoke()


def note_end(req: Any, *args: Any, **kwargs: Any) -> None:
    """A request that is over gives its slots back."""
    engine = runtime.current()
    reading: Reading | None = getattr(req, "v14_reading", None)
    if engine is None or reading is None or reading.again is not None or not req.finished():
        return
    with engine.memory.guard("pace"):
        reading.session.account.ended(len(req.output_ids))
