"""Routes under `/v14/`: whoever may read a namespace can list what it holds, whoever owns it can have it forgotten."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from v14.engines.sglang.front import Front
from v14.errors import RefusedError
from v14.explain import in_words
from v14.namespaces import Access

Ask = Callable[..., Awaitable[dict[str, Any]]]
Decode = Callable[[Sequence[int]], str]
Answer = TypeVar("Answer")

MAX_IDS = 1000
PAGE = 500
FINISH_S = 30.0
"""How long a route waits for requests that are being ended."""


class Forget(BaseModel):
    """What is to be forgotten: events that fulfil everything given, or `everything`."""

    model_config = ConfigDict(extra="forbid")

    namespace: str | None = Field(default=None, description="whose; that of the request by default")
    ids: list[str] = Field(default=[], max_length=MAX_IDS, description="events")
    alike: bool = Field(default=True, description="with `ids`: also events that say the same in the same words")
    chat_id: str = Field(default="", description="events of this chat")
    since: float | None = Field(default=None, description="said at this time or later, Unix seconds")
    until: float | None = Field(default=None, description="said before this time, Unix seconds")
    request: str = Field(default="", description="id of a request (of a reply): what it recalled or wrote")
    deed: Literal["recalled", "written", "both"] = Field(default="both", description="with `request`: which of the two")
    everything: bool = Field(default=False, description="all of the namespace")

    def selection(self) -> dict[str, Any]:
        """As the scheduler takes it."""
        return self.model_dump(exclude={"namespace"})


class Forgotten(BaseModel):
    """What was forgotten. `in_flight` requests that held some of it were told to end and have not yet."""

    namespace: str
    forgotten: int
    ids: list[str]
    in_flight: int


class Item(BaseModel):
    """An event, in words."""

    id: str
    namespace: str
    chat_id: str
    role: str
    said_at: float
    num_tokens: int
    text: str


class Page(BaseModel):
    """Events of a namespace, oldest first; `next` is the `start` of the following page, or null."""

    events: list[Item]
    num_events: int
    next: int | None


class Count(BaseModel):
    """A namespace and how many events it holds."""

    namespace: str
    num_events: int
    writable: bool


class Stats(BaseModel):
    """What a namespace holds. `num_pending` counts events of the whole server that are not on disk yet; `store` and
    `counters` are the whole server's, and an operator's to see."""

    namespace: str
    num_events: int
    num_tokens: int
    num_chats: int
    roles: dict[str, int]
    first_said_at: float | None
    last_said_at: float | None
    num_pending: int
    store: dict[str, int] | None = None
    counters: dict[str, int] | None = None


def router(front: Front, ask: Ask, decode: Decode) -> APIRouter:
    """The routes. `ask` sends an order to the scheduler (`control`), `decode` makes text of token ids."""
    routes = APIRouter(prefix="/v14", tags=["memory"])

    Caller = Annotated[Access, Depends(access_of(front))]

    async def asked(what: str, **arguments: Any) -> dict[str, Any]:
        answer = await ask(what, **arguments)
        if "error" in answer:
            raise HTTPException(answer["status"], answer["error"])
        return answer

    def item(event: Mapping[str, Any]) -> Item:
        return Item(
            **{name: event[name] for name in Item.model_fields if name != "text"}, text=decode(event["token_ids"])
        )

    @routes.get("/namespaces")
    async def namespaces(caller: Caller) -> list[Count]:
        """The namespaces that the caller may read; an operator's key shows all of them."""
        counts = (await asked("namespaces"))["namespaces"]
        return [
            Count(namespace=name, num_events=num_events, writable=caller.may_forget(name))
            for name, num_events in sorted(counts.items())
            if caller.may_read(name)
        ]

    @routes.get("/stats")
    async def stats(caller: Caller, namespace: str | None = None) -> Stats:
        """How much a namespace holds, since when and until when; for an operator the whole store's figures, too."""
        found = Stats(**await asked("stats", namespace=_readable(caller, namespace)))
        return found if caller.operator else found.model_copy(update={"store": None, "counters": None})

    @routes.get("/events")
    async def events(
        caller: Caller,
        namespace: str | None = None,
        chat_id: str = "",
        since: float | None = None,
        until: float | None = None,
        text: Annotated[str, Query(description="only events with these words in them")] = "",
        start: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=PAGE)] = 100,
    ) -> Page:
        """Events of a namespace, with their text."""
        name = _readable(caller, namespace)
        selection = _narrowed({"chat_id": chat_id, "since": since, "until": until})
        found: list[Item] = []
        while True:
            page = await asked("events", namespace=name, selection=selection, start=start, limit=limit)
            shown = [item(event) for event in page["events"]]
            found += [event for event in shown if text.casefold() in event.text.casefold()]
            start += len(shown)
            ended = start >= page["num_events"] or not shown
            if ended or len(found) >= limit or not text:
                return Page(events=found, num_events=page["num_events"], next=None if ended else start)

    @routes.get("/events/{event_id}")
    async def event(event_id: str, caller: Caller, namespace: str | None = None) -> Item:
        """One event, with its text."""
        name = _readable(caller, namespace)
        page = await asked("events", namespace=name, selection={"ids": [event_id], "alike": False})
        if not page["events"]:
            raise HTTPException(404, f"namespace {name!r} holds no event {event_id}")
        return item(page["events"][0])

    @routes.get("/export", response_class=StreamingResponse)
    async def export(caller: Caller, namespace: str | None = None) -> StreamingResponse:
        """All events of a namespace with text and token ids, one JSON object a line."""
        name = _readable(caller, namespace)
        first = await asked("events", namespace=name, selection={"everything": True}, limit=PAGE)

        async def lines() -> AsyncIterator[str]:
            page, start = first, 0
            while page["events"]:
                for event in page["events"]:
                    yield json.dumps({**event, "text": decode(event["token_ids"])}, ensure_ascii=False) + "\n"
                start += len(page["events"])
                page = await asked("events", namespace=name, selection={"everything": True}, start=start, limit=PAGE)

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    @routes.get("/requests/{request_id:path}")
    async def explain(request_id: str, caller: Caller, namespace: str | None = None) -> dict[str, Any]:
        """Why a request recalled what it did: its words with their weight, the votes, the spans, the times."""
        name = namespace or _own(caller)
        if not caller.may_forget(name):
            raise HTTPException(403, f"this request may not ask about the requests of the namespace {name!r}")
        return in_words(await asked("explain", namespace=name, request_id=request_id), decode)

    @routes.post("/forget")
    async def forget(wanted: Forget, caller: Caller) -> Forgotten:
        """Forget events of a namespace, for good: on disk, in memory, in the prefix cache and in what is running."""
        name = writable(caller, wanted.namespace)
        return await _forget(name, wanted.selection(), "operator" if caller.operator else "owner")

    @routes.delete("/events/{event_id}")
    async def forget_event(event_id: str, caller: Caller, namespace: str | None = None) -> Forgotten:
        """Forget one event, and what says the same in the same words."""
        return await forget(Forget(namespace=namespace, ids=[event_id]), caller)

    async def _forget(name: str, selection: Mapping[str, Any], requested_by: str) -> Forgotten:
        done = await asked("forget", namespace=name, selection=selection, requested_by=requested_by)
        until = time.monotonic() + FINISH_S
        # Once at least: while the first order is carried out, the messages that came before it are still in a buffer.
        done |= await asked("finish", namespace=name, ids=done["ids"])
        while done["in_flight"] and time.monotonic() < until:
            await asyncio.sleep(0.05)
            done |= await asked("finish", namespace=name, ids=done["ids"])
        return Forgotten(namespace=name, **done)

    return routes


def access_of(front: Front) -> Callable[[Request], Access]:
    """What a request may do, or the answer that it may not."""

    def access(request: Request) -> Access:
        try:
            return front.namespaces.access(request.headers)
        except RefusedError as error:
            raise HTTPException(error.status_code, str(error)) from error

    return access


def writable(caller: Access, namespace: str | None) -> str:
    """The namespace that is asked for, or the caller's own, if the caller may change it."""
    name = namespace or _own(caller)
    if not caller.may_forget(name):
        raise HTTPException(403, f"this request may not change the namespace {name!r}")
    return name


def _own(caller: Access) -> str:
    try:
        return caller.own
    except RefusedError as error:
        raise HTTPException(error.status_code, str(error)) from error


def _readable(caller: Access, namespace: str | None) -> str:
    name = namespace or _own(caller)
    if not caller.may_read(name):
        raise HTTPException(403, f"this request may not read the namespace {name!r}")
    return name


def _narrowed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A selection of the fields that are given; of everything where none is."""
    given = {name: value for name, value in fields.items() if value not in ("", None)}
    return given or {"everything": True}
