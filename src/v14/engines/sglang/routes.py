"""Routes under `/v14/`: whoever may read a namespace can see what it holds, whoever owns it can have it forgotten."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse

from v14.engines.sglang.answers import (
    Brief,
    Briefs,
    Chat,
    Chats,
    Count,
    Forget,
    Forgotten,
    Item,
    Lead,
    Losses,
    Me,
    Page,
    Recall,
    Stats,
    Tie,
    Ties,
    Unlink,
    Unlinked,
    Use,
    Uses,
)
from v14.engines.sglang.front import Front
from v14.errors import RefusedError
from v14.inspector.stories import story_in_words
from v14.inspector.words import Decode, words_with
from v14.namespaces import Access

Ask = Callable[..., Awaitable[dict[str, Any]]]
Answer = TypeVar("Answer")

PAGE = 500
FINISH_S = 30.0
"""How long a route waits for requests that are being ended."""

Start = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=1, le=PAGE)]


def router(front: Front, ask: Ask, decode: Decode) -> APIRouter:
    """The routes. `ask` sends an order to the scheduler (`control`), `decode` makes text of token ids."""

    def unkept(response: Response) -> None:
        # What people said is in no cache but this server's own.
        response.headers["Cache-Control"] = "no-store"

    routes = APIRouter(prefix="/v14", tags=["memory"], dependencies=[Depends(unkept)])

    Caller = Annotated[Access, Depends(access_of(front))]

    async def asked(what: str, **arguments: Any) -> dict[str, Any]:
        answer = await ask(what, **arguments)
        if "error" in answer:
            raise HTTPException(answer["status"], answer["error"])
        return answer

    async def looked(caller: Access, what: str, namespace: str, **arguments: Any) -> dict[str, Any]:
        answer = await asked(what, namespace=namespace, **arguments)
        found: dict[str, Any] = answer if caller.may_forget(namespace) else _without_recalls(answer)
        return found

    def item(event: Mapping[str, Any]) -> Item:
        return Item.of(event, decode)

    @routes.get("/access")
    async def me(caller: Caller) -> Me:
        """What the caller may do here."""
        return Me(
            policy=front.namespaces.policy,
            namespace=caller.namespace,
            shared=list(caller.shared),
            operator=caller.operator,
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

    @routes.get("/uses")
    async def uses(
        caller: Caller,
        text: Annotated[str, Query(description="only namespaces with this in their name")] = "",
        start: Start = 0,
        limit: Annotated[int, Query(ge=1, le=50)] = 25,
    ) -> Uses:
        """The same, page by page, with what each of them holds and when it was last written to and recalled from."""
        names = [count.namespace for count in await namespaces(caller)]
        names = [name for name in names if text.casefold() in name.casefold()]
        # One order each, so that requests are served between them.
        found = [await looked(caller, "use", name) for name in names[start : start + limit]]
        return Uses(
            namespaces=[Use(**use, writable=caller.may_forget(use["namespace"])) for use in found],
            num_namespaces=len(names),
            next=_next(start, limit, len(names)),
        )

    @routes.get("/chats")
    async def chats(caller: Caller, namespace: str | None = None, start: Start = 0, limit: Limit = 50) -> Chats:
        """Chats of a namespace, with how each begins."""
        page = await looked(caller, "chats", _readable(caller, namespace), start=start, limit=limit)
        found = [Chat(**{**chat, "first": chat["first"] and item(chat["first"])}) for chat in page["chats"]]
        return Chats(chats=found, num_chats=page["num_chats"], next=_next(start, limit, page["num_chats"]))

    @routes.get("/events")
    async def events(
        caller: Caller,
        namespace: str | None = None,
        chat_id: str = "",
        since: float | None = None,
        until: float | None = None,
        role: str = "",
        text: Annotated[str, Query(description="only events with these words in them")] = "",
        order: Literal["oldest", "newest"] = "oldest",
        start: Start = 0,
        limit: Limit = 100,
    ) -> Page:
        """Events of a namespace, with their text."""
        name = _readable(caller, namespace)
        selection = _narrowed({"chat_id": chat_id, "since": since, "until": until})
        found: list[Item] = []
        while True:
            size = PAGE if text else limit
            page = await looked(
                caller, "events", name, selection=selection, start=start, limit=size, role=role,
                newest=order == "newest",
            )  # fmt: skip
            for place, event in enumerate(map(item, page["events"])):
                if text.casefold() in event.text.casefold():
                    found.append(event)
                if len(found) == limit:
                    after = start + place + 1
                    return Page(
                        events=found,
                        num_events=page["num_events"],
                        next=after if after < page["num_events"] else None,
                    )
            start += size
            if start >= page["num_events"]:
                return Page(events=found, num_events=page["num_events"], next=None)
            if not text:
                return Page(events=found, num_events=page["num_events"], next=start)

    @routes.get("/events/{event_id}")
    async def event(event_id: str, caller: Caller, namespace: str | None = None) -> Item:
        """One event, with its text."""
        return item((await looked(caller, "event", _readable(caller, namespace), event_id=event_id))["event"])

    @routes.get("/events/{event_id}/ties")
    async def ties(event_id: str, caller: Caller, namespace: str | None = None) -> Ties:
        """One event with what it is tied to: links, events that its rare words lead to, requests that recalled it."""
        name = _readable(caller, namespace)
        found = await looked(caller, "event", name, event_id=event_id)
        return Ties(
            event=item(found["event"]),
            before=found["before"] and item(found["before"]),
            links=[Tie(**{**link, "event": item(link["event"])}) for link in found["links"]],
            leads=[
                Lead(
                    shared=lead["shared"],
                    words=words_with(lead["event"]["word_ids"], lead["shared_ids"], decode),
                    event=item(lead["event"]),
                )
                for lead in found["leads"]
            ],
            recalled_by=[
                Recall(id=by["id"], at=by["at"], asked=decode(by["asked_ids"])) for by in found["recalled_by"]
            ],
        )

    @routes.get("/export", response_class=StreamingResponse)
    async def export(caller: Caller, namespace: str | None = None) -> StreamingResponse:
        """All events of a namespace with text and token ids, one JSON object a line."""
        name = _readable(caller, namespace)
        first = await looked(caller, "events", name, selection={"everything": True}, limit=PAGE)

        async def lines() -> AsyncIterator[str]:
            page, start = first, 0
            while page["events"]:
                for event in page["events"]:
                    exported = {**event, "text": decode(event["token_ids"])}
                    del exported["word_ids"]
                    yield json.dumps(exported, ensure_ascii=False) + "\n"
                start += PAGE
                page = await looked(caller, "events", name, selection={"everything": True}, start=start, limit=PAGE)

        return StreamingResponse(lines(), media_type="application/x-ndjson", headers={"Cache-Control": "no-store"})

    @routes.get("/requests")
    async def requests(caller: Caller, namespace: str | None = None, start: Start = 0, limit: Limit = 50) -> Briefs:
        """The last requests of a namespace that looked for what to recall."""
        name = _asking(caller, namespace)
        page = await asked("requests", namespace=name, start=start, limit=limit)
        found = [Brief(**brief, asked=decode(brief["asked_ids"])) for brief in page["requests"]]
        return Briefs(requests=found, num_requests=page["num_requests"], next=_next(start, limit, page["num_requests"]))

    @routes.get("/requests/{request_id:path}")
    async def explain(request_id: str, caller: Caller, namespace: str | None = None) -> dict[str, Any]:
        """Why a request recalled what it did: its words with their weight, the votes, the spans, the times."""
        name = _asking(caller, namespace)
        return story_in_words(await asked("explain", namespace=name, request_id=request_id), decode)

    @routes.post("/losses")
    async def losses(wanted: Forget, caller: Caller) -> Losses:
        """What would be forgotten by the same words to `/v14/forget`: how much, and some of it."""
        name = writable(caller, wanted.namespace)
        lost = await asked("losses", namespace=name, selection=wanted.selection())
        return Losses(**{**lost, "events": [item(event) for event in lost["events"]]})

    @routes.post("/unlink")
    async def unlink(wanted: Unlink, caller: Caller) -> Unlinked:
        """Take back that one event supersedes another: both stand for themselves again, at once and for good."""
        name = writable(caller, wanted.namespace)
        done = await asked("unlink", namespace=name, later=wanted.later, earlier=wanted.earlier)
        return Unlinked(namespace=name, **done)

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
            # Where whoever names a namespace has it, a query names one as the field `user` does.
            return front.namespaces.access(request.headers, request.query_params.get("namespace"))
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


def _asking(caller: Access, namespace: str | None) -> str:
    name = namespace or _own(caller)
    if not caller.may_forget(name):
        raise HTTPException(403, f"this request may not ask about the requests of the namespace {name!r}")
    return name


def _without_recalls(answer: Any) -> Any:
    """An answer for those with whom a namespace is shared: what others recall of it is not for them."""
    if isinstance(answer, list):
        return [_without_recalls(part) for part in answer]
    if not isinstance(answer, dict):
        return answer
    kept = {name: _without_recalls(part) for name, part in answer.items()}
    return kept | {name: empty for name, empty in (("recalled_at", None), ("recalled_by", [])) if name in kept}


def _next(start: int, limit: int, total: int) -> int | None:
    return start + limit if start + limit < total else None


def _narrowed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A selection of the fields that are given; of everything where none is."""
    given = {name: value for name, value in fields.items() if value not in ("", None)}
    return given or {"everything": True}
