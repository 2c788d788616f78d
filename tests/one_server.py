"""Real servers that several modules may ask: one runs at a time, as long as the tests that follow want the same one.

Starting a server takes longer than most of what is asked of it, and one that idles keeps a core busy. Modules and
cases say which server is theirs by a `Served` (a module's `SERVED`, a fixture's parameter), and `tests/conftest.py`
puts those of one server behind each other.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hybrid_serving import serving_of
from tests.tiny import tiny_v14
from v14.check.server import Server
from v14.types import MAX_EVENT_TOKENS

EXACT = {"write_generated": False, "engram_rank": MAX_EVENT_TOKENS}
"""Options of a law: what a test says is all that is stored, and of recurrent layers nothing is cut."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """What a tiny server is of. Two that are equal are one server."""

    family: str
    options: tuple[tuple[str, Any], ...]
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The family and how it reinstates, as an id of a case."""
        return f"{self.family} {dict(self.options)['reinstate']}"


def served(
    family: str, reinstate: str = "kv", arguments: tuple[str, ...] = (), options: dict[str, Any] | None = None,
    **environment: str,
) -> Served:  # fmt: skip
    """A server of `EXACT`, with more options."""
    chosen = {**EXACT, "reinstate": reinstate, **(options or {})}
    return Served(
        family=family,
        options=tuple(sorted(chosen.items())),
        arguments=arguments,
        environment=tuple(sorted(environment.items())),
    )


PLACED = served("llama")
REREAD = served("llama", "reread", ("--enable-metrics",))
IN_CHUNKS = served("qwen3_5", arguments=("--chunked-prefill-size", "96"))
"""Prompts and heads are read in several passes."""

LOOKING = {"recall_while_decoding": True, "recall_max_events": 1}
"""One event is recalled with each look, whatever it is."""

DECODING = served("llama", options=LOOKING, SGLANG_V14_TRACE="1")


@dataclass(kw_only=True)
class OneServer:
    """Starts what is asked for, and stops what ran before."""

    place: Path
    served: Served | None = field(default=None, init=False)
    """What the server that runs is of."""
    _running: Any = field(default=None, init=False)
    _server: Server | None = field(default=None, init=False)
    _num_started: int = field(default=0, init=False)

    def of(self, wanted: Served) -> Server:
        """The server of `wanted`, started or still there."""
        if self.served != wanted or not self._server.running:
            self.stop()
            self._num_started += 1
            place = self.place / f"{wanted.family}-{self._num_started}"
            model_dir = tiny_v14(wanted.family, place / "model", **dict(wanted.options))
            self._running = serving_of(
                wanted.family, model_dir, place / "memory", *wanted.arguments, **dict(wanted.environment)
            )
            self._server, self.served = self._running.__enter__(), wanted
        return self._server

    def stop(self) -> None:
        """An idle engine counts its slots of KV and of states, and ends itself when one is missing."""
        running, server, self.served = self._running, self._server, None
        self._running = self._server = None
        if running is None:
            return
        try:
            time.sleep(2)
            assert server.running, server.log_tail()
            assert server.tracebacks() == 0
        finally:
            running.__exit__(None, None, None)
