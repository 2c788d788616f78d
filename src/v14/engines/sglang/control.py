"""What the HTTP process asks of the memory, which lives in the scheduler: questions and orders beside the requests.

They travel as SGLang's own request for the scheduler's internal state, in its id, as JSON behind a prefix; the answer
is the state that comes back. Such a request is neither queued nor batched nor refused when the server is full, it is
answered in order with everything else that arrives, and it reaches every scheduler there is, which a hidden generation
request would not. A client cannot send one: SGLang's routes leave the id empty.
"""

import dataclasses
import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from v14.engines.sglang.erasing import Eraser
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.telling import EVENTS
from v14.errors import SelectionError, StoreError, V14Error
from v14.forgetting import Selection, select
from v14.inspector import look, stories, ties
from v14.types import Event

logger = logging.getLogger("v14")

PREFIX = "v14:"
MAX_PAGE = 1000
PADDING = 16384
"""Spaces behind an order: the socket's buffer (8 KiB, ZeroMQ) keeps what came last until as much comes again."""

Answer = dict[str, Any]


def order(what: str, **arguments: Any) -> str:
    """The id of a request that asks for `what`."""
    return PREFIX + json.dumps({"what": what, **arguments}) + " " * PADDING


def answer(engine: Runtime | None, text: str) -> Answer:
    """Carry out an order; whatever goes wrong is an answer with `error` and an HTTP `status`."""
    try:
        if engine is None:
            raise StoreError("the memory is off; the log says why, look there")
        asked = json.loads(text.removeprefix(PREFIX))
        what = asked.pop("what")
        if what not in CHANGING and not engine.ranks.leads:
            return {}
        return ORDERS[what](engine, **asked)
    except SelectionError as error:
        return {"error": str(error), "status": 404}
    except V14Error as error:
        return {"error": str(error), "status": 503}
    except Exception as error:
        logger.exception("an order to the memory failed")
        return {"error": f"{type(error).__name__}: {error}", "status": 500}


def _namespaces(engine: Runtime) -> Answer:
    return {"namespaces": dict(engine.memory.store.namespaces())}


def _events(
    engine: Runtime,
    namespace: str,
    selection: Mapping[str, Any],
    start: int = 0,
    limit: int = MAX_PAGE,
    newest: bool = False,
    role: str = "",
) -> Answer:
    """A page of a namespace's events, oldest or newest first."""
    engine.settle(namespace)
    return look.events(engine.memory, namespace, _selection(selection), start, limit, newest=newest, role=role)


def _stats(engine: Runtime, namespace: str) -> Answer:
    """What a namespace holds, how much of all that was read is still to be written, and the store's own sizes."""
    engine.settle(namespace)
    events, store = engine.memory.store.events(namespace), engine.memory.store.stats()
    return {
        "namespace": namespace,
        "num_events": len(events),
        "num_tokens": sum(event.num_tokens for event in events),
        "num_chats": len({event.chat_id for event in events}),
        "roles": dict(Counter(event.role for event in events)),
        "first_said_at": min((event.said_at for event in events), default=None),
        "last_said_at": max((event.said_at for event in events), default=None),
        "num_pending": store.num_pending + engine.num_waiting,
        "store": dataclasses.asdict(store),
        "counters": dict(engine.memory.counters),
    }


def _held(engine: Runtime, namespace: str, ids: list[str]) -> Answer:
    """Which of these events the namespace holds."""
    engine.settle(namespace)
    return {"held": sorted(engine.memory.store.has(namespace, ids))}


def _imported(engine: Runtime, namespace: str, num_events: int, num_tokens: int, requested_by: str) -> Answer:
    """Note an import in the store's audit."""
    engine.memory.store.note_import(namespace, num_events, num_tokens, requested_by)
    return {}


def _losses(engine: Runtime, namespace: str, selection: Mapping[str, Any]) -> Answer:
    """What would be lost if a selection were forgotten."""
    engine.settle(namespace)
    return look.losses(engine.memory, namespace, _selection(selection))


def _of(look_at: Callable[..., Answer]) -> Callable[..., Answer]:
    """The order for a look at a namespace that needs nothing but its memory."""

    def answer_with(engine: Runtime, namespace: str, **arguments: Any) -> Answer:
        engine.settle(namespace)
        return look_at(engine.memory, namespace, **arguments)

    return answer_with


def _unlink(engine: Runtime, namespace: str, later: str, earlier: str) -> Answer:
    """Take back that one event supersedes another."""
    engine.settle(namespace)
    return {"unlinked": engine.memory.unlink(namespace, later, earlier)}


def _forget(engine: Runtime, namespace: str, selection: Mapping[str, Any], requested_by: str = "") -> Answer:
    wanted = _selection(selection)

    def chosen() -> tuple[Event, ...]:
        engine.settle(namespace)
        return tuple(select(engine.memory, namespace, wanted))

    events: tuple[Event, ...] = engine.ranks.told(EVENTS, chosen)
    return Eraser(engine).erase(namespace, events, wanted.kind, requested_by)


def _finish(engine: Runtime, namespace: str, ids: list[str]) -> Answer:
    return {"in_flight": Eraser(engine).finish(namespace, ids)}


def _selection(fields: Mapping[str, Any]) -> Selection:
    return Selection(**{**fields, "ids": tuple(fields.get("ids", ()))})


CHANGING = {"forget", "finish"}
"""Orders that every rank has to carry out; what only asks is answered by the first alone."""

ORDERS: Mapping[str, Callable[..., Answer]] = {
    "namespaces": _namespaces,
    "events": _events,
    "stats": _stats,
    "held": _held,
    "imported": _imported,
    "event": _of(ties.event),
    "use": _of(look.use),
    "chats": _of(look.chats),
    "requests": _of(stories.requests),
    "explain": _of(stories.story),
    "losses": _losses,
    "unlink": _unlink,
    "forget": _forget,
    "finish": _finish,
}
