"""What the memory counts and how long it takes, under SGLang's own `/metrics` (`--enable-metrics`).

SGLang's processes share metrics by files, prometheus_client's multiprocess mode: each writes its own below
PROMETHEUS_MULTIPROC_DIR, which the first one sets and the others inherit, and the HTTP process adds them up. Nothing
can be computed at a scrape, so a thread carries over what is counted elsewhere. The library looks at the variable when
it is imported: import this module only once metrics are wanted.
"""

import logging
import threading
from collections import Counter as Counts
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from v14.memory import Memory

logger = logging.getLogger("v14")

INTERVAL_S = 5.0
"""Between two looks at counters and store; who scrapes comes less often."""

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)

COUNTERS = {
    "v14_plans": ("Plans made for requests, by whether they recall something.", "result"),
    "v14_events_recalled": ("Events recalled.", ""),
    "v14_tokens_recalled": ("Tokens of the events recalled.", ""),
    "v14_events_stored": ("Events handed to the store.", ""),
    "v14_spans": ("Spans in front of prompts, by how they came there: kv, reread, cached.", "way"),
    "v14_errors": ("Failures that cost a request its recall or its remembering, by concern.", "concern"),
    "v14_requests_without_memory": ("Requests served without memory, by reason.", "reason"),
    "v14_requests_refused": ("Requests refused by the memory, by HTTP status.", "status"),
    "v14_other": ("Whatever else the memory counts, by its own name.", "of"),
}
"""Name (a scrape adds `_total`), meaning, and the label that tells apart what a counter counts; none if empty."""

GAUGES = {
    "v14_available": "Whether there is a store to recall from and write to.",
    "v14_events": "Events in the store.",
    "v14_tokens": "Tokens of the events in the store.",
    "v14_store_bytes": "Bytes of the traces in the store.",
    "v14_namespaces": "Namespaces that hold events.",
    "v14_events_pending": "Events that wait to be committed.",
    "v14_events_lost": "Events that could not be written and were given up, since the start.",
    "v14_events_set_aside": "Events whose trace is damaged or cannot be read.",
    "v14_requests_pending": "Finished requests whose events wait to be made.",
}

HISTOGRAMS = {"v14_seconds": ("Seconds that the parts of the memory's work take.", "part")}

_EXACT = {
    "plans_recalling": ("v14_plans", "recalling"),
    "plans_empty": ("v14_plans", "empty"),
    "events_recalled": ("v14_events_recalled", ""),
    "tokens_recalled": ("v14_tokens_recalled", ""),
    "events_stored": ("v14_events_stored", ""),
    "corrupt_events": ("v14_errors", "corrupt_events"),
    "store_unavailable": ("v14_errors", "store_unavailable"),
}
_PREFIXES = {
    "failed_": "v14_errors",
    "spans_": "v14_spans",
    "without_memory_": "v14_requests_without_memory",
    "refused_": "v14_requests_refused",
}


def metric_of(key: str) -> tuple[str, str]:
    """The metric and label value of a key in the memory's counters."""
    if key in _EXACT:
        return _EXACT[key]
    for prefix, name in _PREFIXES.items():
        if key.startswith(prefix):
            return name, key.removeprefix(prefix)
    return "v14_other", key


class Exporter:
    """The metrics of one process. Make one only: the library refuses a name that it has."""

    def __init__(self, model_name: str, registry: Any = None) -> None:
        """`model_name` is the label that SGLang's own metrics carry; `registry` is the library's own if None."""
        where = {} if registry is None else {"registry": registry}
        self._model = {"model_name": model_name}
        self._counters: dict[str, Any] = {
            name: Counter(name, text, ["model_name", *filter(None, [label])], **where)
            for name, (text, label) in COUNTERS.items()
        }
        self._gauges: dict[str, Any] = {
            name: Gauge(name, text, ["model_name"], multiprocess_mode="mostrecent", **where)
            for name, text in GAUGES.items()
        }
        text, label = HISTOGRAMS["v14_seconds"]
        self._seconds = Histogram("v14_seconds", text, ["model_name", label], buckets=SECONDS, **where)
        self._parts: dict[str, Any] = {}
        self._watched: list[tuple[Counts[str], Counts[str]]] = []
        self._looks: list[Callable[[], Iterator[tuple[str, float]]]] = []

    def watch(self, counters: Counts[str]) -> None:
        """Carry these counters over."""
        self._watched.append((counters, Counts()))

    def watch_memory(self, memory: Memory, num_waiting: Callable[[], int] = lambda: 0) -> None:
        """Carry over a memory's counters, times and store; `num_waiting` are the finished requests of the engine."""
        self.watch(memory.counters)
        memory.listeners.append(self.heard)
        self._looks.append(lambda: _sizes(memory, num_waiting()))

    def heard(self, part: str, seconds: float) -> None:
        """A part of the memory's work took so long."""
        child = self._parts.get(part)
        if child is None:
            child = self._parts[part] = self._seconds.labels(**self._model, part=part)
        child.observe(seconds)

    def refresh(self) -> None:
        """Carry over what changed since the last time."""
        for counters, before in self._watched:
            for key, value in counters.copy().items():
                if value > before[key]:
                    name, label = metric_of(key)
                    self._counter(name, label).inc(value - before[key])
                    before[key] = value
        for look in self._looks:
            for name, size in look():
                self._gauges[name].labels(**self._model).set(size)

    def start(self, interval_s: float = INTERVAL_S) -> None:
        """Refresh from now on, on a thread that ends with the process."""
        threading.Thread(target=self._run, args=(interval_s,), name="v14-metrics", daemon=True).start()

    def _counter(self, name: str, value: str) -> Any:
        label = COUNTERS[name][1]
        return self._counters[name].labels(**self._model, **({label: value} if label else {}))

    def _run(self, interval_s: float) -> None:
        reported = ""
        pause = threading.Event()
        while True:
            try:
                self.refresh()
                reported = ""
            except Exception as error:  # noqa: BLE001 - metrics never stop anything; one line for each kind of failure
                if type(error).__name__ != reported:
                    logger.warning("metrics are not up to date: %s", error)
                reported = type(error).__name__
            pause.wait(interval_s)


def _sizes(memory: Memory, num_waiting: int) -> Iterator[tuple[str, float]]:
    yield "v14_available", float(memory.available)
    yield "v14_requests_pending", num_waiting
    if memory.available:
        stats = memory.store.stats()
        yield "v14_events", stats.num_events
        yield "v14_tokens", stats.num_tokens
        yield "v14_store_bytes", stats.num_bytes
        yield "v14_namespaces", sum(count > 0 for count in memory.store.namespaces().values())
        yield "v14_events_pending", stats.num_pending
        yield "v14_events_lost", stats.num_failed_writes
        yield "v14_events_set_aside", stats.num_corrupt
