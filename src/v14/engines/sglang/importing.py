"""`POST /v14/import`: the model reads again what was exported, and its namespace remembers it.

    HTTP process    lines → events → sequences, each a request of its own whose ticket names the events in it
    scheduler       reads it like any prompt; what is stored of it is what the ticket says

Nothing but token ids, words, times and ids of events comes from the file: keys and values are this model's own.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Request
from pydantic import BaseModel

from v14.engines.sglang.front import Front
from v14.engines.sglang.routes import Ask, access_of, writable
from v14.engines.sglang.ticket import Ticket, Told
from v14.errors import EventFileError
from v14.events import file
from v14.events.cut import UNWRITTEN_ROLES, Cutter
from v14.events.replay import MAX_TOKENS, Replay, events_of, head_of, replays
from v14.namespaces import Access
from v14.types import Event

Item = TypeVar("Item")
Read = Callable[[Sequence[int], Ticket], Awaitable[None]]
SIDE_BY_SIDE = 4
"""Sequences that are read at a time: people are served meanwhile."""
IDS_A_TIME = 1000


class Imported(BaseModel):
    """What came of an import. `failed` were not read; the server's log says why."""

    namespace: str
    num_events: int
    imported: int
    known: int
    failed: int


@dataclass(frozen=True, kw_only=True)
class Importer:
    """Reads files of events. `read` has the scheduler read token ids under a ticket, `ask` sends it an order.

    `room_tokens` says how long a prompt may be.
    """

    cutter: Cutter
    tokenizer: Any
    vocab_size: int
    read: Read
    ask: Ask
    room_tokens: Callable[[], int]

    def events(self, data: bytes, namespace: str) -> list[Event]:
        """The events of a file, each once. Raises `EventFileError`."""
        roles = set(self.cutter.turns.openings) - UNWRITTEN_ROLES or {"text"}
        lines = file.read(
            file.lines_of(data), namespace=namespace, roles=roles, vocab_size=self.vocab_size,
            decode=lambda ids: self.tokenizer.decode(list(ids)), now=time.time(),
        )  # fmt: skip
        head, found = self.head(), dict[str, Event]()
        for line in lines:
            if isinstance(line, Event):
                found.setdefault(line.id, line)
            else:
                content = self.tokenizer.encode(line.text, add_special_tokens=False)
                for event in events_of(line, content, head, self.cutter, namespace):
                    found.setdefault(event.id, event)
        return list(found.values())

    def head(self) -> tuple[int, ...]:
        """What stands in front of a conversation with this model; nothing for one without a chat template."""
        if not self.cutter.turns.openings:
            return ()
        ids = self.tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=True, return_dict=False)
        return head_of(ids, self.cutter.turns)

    async def run(self, events: Sequence[Event], namespace: str, requested_by: str) -> Imported:
        """Have those read that are not known, and note it in the audit."""
        known = await self._held(namespace, [event.id for event in events])
        new = [event for event in events if event.id not in known]
        head = self.head()
        room = min(MAX_TOKENS, self.room_tokens() - len(head))
        for some in parts(list(replays(new, head, room)), SIDE_BY_SIDE):
            await asyncio.gather(*(self.read(replay.token_ids, ticket(replay, namespace)) for replay in some))
        held = await self._held(namespace, [event.id for event in new])
        if held:
            num_tokens = sum(event.num_tokens for event in new if event.id in held)
            await self._asked("imported", namespace=namespace, num_events=len(held), num_tokens=num_tokens,
                              requested_by=requested_by)  # fmt: skip
        return Imported(
            namespace=namespace,
            num_events=len(events),
            imported=len(held),
            known=len(known),
            failed=len(new) - len(held),
        )

    async def _held(self, namespace: str, ids: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for some in parts(ids, IDS_A_TIME):
            found |= set((await self._asked("held", namespace=namespace, ids=list(some)))["held"])
        return found

    async def _asked(self, what: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.ask(what, **arguments)
        if "error" in answer:
            raise HTTPException(answer["status"], answer["error"])
        return answer


def parts(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Runs of `size` items, the last one shorter."""
    return (items[start : start + size] for start in range(0, len(items), size))


def ticket(replay: Replay, namespace: str) -> Ticket:
    """The ticket of the request that reads a sequence: nothing is recalled for it, and its events are named."""
    told = tuple(
        Told(
            start=start,
            num_tokens=event.num_tokens,
            chat_id=event.chat_id,
            role=event.role,
            said_at=event.said_at,
            parent=event.parent,
            closing_len=event.closing_len,
        )
        for start, event in replay.events
    )
    return Ticket(namespace=namespace, mode="write", max_new_tokens=1, told=told)


def import_router(front: Front, importer: Importer) -> APIRouter:
    """The route. Everything goes into one namespace, the caller's own or, for an operator, any."""
    routes = APIRouter(prefix="/v14", tags=["memory"])
    Caller = Annotated[Access, Depends(access_of(front))]
    lines = {"application/x-ndjson": {"schema": {"type": "string"}}}

    @routes.post("/import", name="import", openapi_extra={"requestBody": {"required": True, "content": lines}})
    async def import_(request: Request, caller: Caller, namespace: str | None = None) -> Imported:
        """Have the model read exported events, or turns in plain words, one JSON object a line; all lines or none."""
        name = writable(caller, namespace)
        data = bytearray()
        async for part in request.stream():
            data += part
            if len(data) > file.MAX_BYTES:
                raise HTTPException(
                    413, f"a file of events has up to {file.MAX_BYTES >> 20} MiB; give it in several parts"
                )
        try:
            events = await asyncio.to_thread(importer.events, bytes(data), name)
        except EventFileError as error:
            raise HTTPException(400, str(error)) from error
        return await importer.run(events, name, "operator" if caller.operator else "owner")

    return routes
