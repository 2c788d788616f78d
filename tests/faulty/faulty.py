"""A plugin of SGLang beside the memory's, for tests: breaks one step of the memory on one rank.

In the directory that `FAULTY` names, a file called `STEP RANK` makes that step fail on that rank as long as it is
there. A server finds this plugin when `tests/faulty` is on its path.
"""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = ("opening", "opened", "cue", "decided", "again", "fetch", "fill", "runs", "harvest")


def load() -> None:
    from v14.engines.sglang import arriving, cues, planning
    from v14.engines.sglang.harvest import Harvest
    from v14.engines.sglang.hooks import observe, span
    from v14.memory import Session

    _break(arriving, "_opening", "opening")
    _break(arriving, "_opened", "opened")
    _break(cues, "_own", "cue")
    _break(planning, "_decided", "decided")
    _break(planning, "_again", "again")
    _break(Session, "span", "fetch")
    _break(span, "to_device", "fill")
    _break(observe, "_runs", "runs")
    _break(Harvest, "parts", "harvest")


def _break(owner: Any, name: str, step: str) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(original)
    def broken(*args: Any, **kwargs: Any) -> Any:
        from v14.engines.sglang import runtime

        engine = runtime.current()
        if engine is not None and Path(os.environ["FAULTY"], f"{step} {engine.ranks.rank}").exists():
            raise RuntimeError(f"{step} is broken on rank {engine.ranks.rank}")
        return original(*args, **kwargs)

    setattr(owner, name, broken)
