"""A client of a server with memory: chat with it, and look after what a namespace holds. Needs nothing but Python.

    client = Client("http://127.0.0.1:30000", namespace="ada")
    client.chat("My violin was built in Cremona.")
    reply = client.chat("In which city was my violin built?", memory="read")
    reply.text, [event.text for event in reply.recalled]
    client.search("violin"), client.forget(ids=[reply.recalled[0].id])

`AsyncClient` has the same methods to be awaited. Every method raises `ServerError`, which says what to do.
"""

import asyncio
import http.client
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from v14.errors import ServerError

Mode = Literal["off", "read", "write", "both"]
Message = Mapping[str, Any]
Json = dict[str, Any]

KEY_REMEDY = "give the key of the namespace, or an operator's (key=, --key-file)"
REMEDIES = {
    400: "look at what was sent",
    401: KEY_REMEDY,
    403: KEY_REMEDY,
    404: "give the namespace if it is of another (namespace=, --namespace); a server keeps its last plans only, and "
    "none where nothing is stored",
    413: "send less at a time",
    422: "look at what was sent",
}


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """An event that a reply was given with; `said_at` is in Unix seconds, `vote` is None where no vote led to it."""

    id: str
    namespace: str
    chat_id: str
    role: str
    said_at: float
    text: str
    vote: float | None
    why: str | None = None


@dataclass(frozen=True, kw_only=True)
class Look:
    """What was recalled while the reply was written, behind `at` of its tokens."""

    at: int
    reason: str = ""
    recalled: tuple[Recalled, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A reply. `memory` is the mode in which it was served, `id` names the record for `explain` ("" without one).

    `while_decoding` is empty unless the model's directory has `recall_while_decoding`.
    """

    text: str
    id: str = ""
    memory: str = ""
    reason: str = ""
    recalled: tuple[Recalled, ...] = ()
    while_decoding: tuple[Look, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An event of a namespace; `said_at` is in Unix seconds, `words` the text without the chat template's marks."""

    id: str
    namespace: str
    chat_id: str
    role: str
    said_at: float
    num_tokens: int
    text: str
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Linked:
    """A link of an event with another one: it leads there where `outgoing`, and comes from there otherwise.

    `kind` is `association`, or `supersedes` where the event that it comes from is the newer statement.
    """

    kind: str
    weight: float
    outgoing: bool
    event: Stored


Event = TypeVar("Event", Recalled, Stored)


@dataclass(frozen=True)
class Client:
    """Talks to the server at `url`. `namespace` and `key` say whose memory it is; safe to use from several threads.

    Without a namespace it is the key's own, or the server's default.
    """

    url: str = "http://127.0.0.1:30000"
    namespace: str | None = field(default=None, kw_only=True)
    key: str | None = field(default=None, kw_only=True, repr=False)
    model: str = field(default="default", kw_only=True)
    timeout_s: float = field(default=600.0, kw_only=True)

    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        memory: Mode = "both",
        chat_id: str = "",
        shared: Sequence[str] = (),
        **options: Any,
    ) -> Answer:
        """A reply to a text or a conversation. `memory` says what the request does with the memory.

        `shared` names namespaces that are read besides; `options` go into the body (`max_tokens`, `temperature`, …).
        """
        turns = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        headers: dict[str, str] = {"X-V14-Memory": memory}
        if chat_id:
            headers["X-V14-Chat"] = chat_id
        if shared:
            headers["X-V14-Shared"] = ", ".join(shared)
        body = {"model": self.model, "messages": turns, **options}
        if self.namespace and not self.namespace.isascii():
            body["user"] = self.namespace  # which headers cannot carry
        data = self._json("POST", "/v1/chat/completions", body, headers)
        try:
            return _answer(data)
        except (KeyError, IndexError, TypeError) as error:
            raise ServerError(f"{self.url} gave no reply of the chat API; give the address of SGLang itself") from error

    def events(
        self, *, chat_id: str = "", since: float | None = None, until: float | None = None, text: str = ""
    ) -> Iterator[Stored]:
        """The events of the namespace, oldest first; only those said in [since, until) (Unix seconds), with `text`."""
        asked = {"chat_id": chat_id, "since": since, "until": until, "text": text}
        start: int | None = 0
        while start is not None:
            page = self._json("GET", "/v14/events", query={**asked, "start": start})
            yield from (_told(Stored, event) for event in page["events"])
            start = page["next"]

    def search(self, text: str) -> list[Stored]:
        """The events with these words in them, whatever their case."""
        return list(self.events(text=text))

    def show(self, event_id: str) -> Stored:
        """One event."""
        return _told(Stored, self._json("GET", f"/v14/events/{quote(event_id, safe='')}"))

    def links(self, event_id: str) -> list[Linked]:
        """The links of an event, strongest first (of many, the strongest)."""
        found = self._json("GET", f"/v14/events/{quote(event_id, safe='')}/ties")["links"]
        return [
            Linked(**{name: link[name] for name in ("kind", "weight", "outgoing")}, event=_told(Stored, link["event"]))
            for link in found
        ]

    def unlink(self, later: str, earlier: str) -> Json:
        """Take back that the event `later` supersedes `earlier`: both stand for themselves again. How many links."""
        wanted = {"later": later, "earlier": earlier, "namespace": self.namespace}
        return self._json("POST", "/v14/unlink", wanted)

    def forget(
        self, ids: Sequence[str] = (), *, chat_id: str = "", since: float | None = None, until: float | None = None,
        request: str = "", everything: bool = False, alike: bool = True,
    ) -> Json:  # fmt: skip
        """Forget what fulfils everything that is given, for good: how many events, and their ids."""
        wanted: Json = {"ids": list(ids), "chat_id": chat_id, "since": since, "until": until, "request": request}
        wanted |= {"everything": everything, "alike": alike, "namespace": self.namespace}
        return self._json("POST", "/v14/forget", wanted)

    def export(self) -> Iterator[Json]:
        """Every event of the namespace with its text and token ids, as `import_events` takes them."""
        connection, response = self._open("GET", "/v14/export")
        try:
            for line in response:
                yield json.loads(line)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unheard("/v14/export", error) from error
        finally:
            connection.close()

    def import_events(self, events: Iterable[Mapping[str, Any]] | Path | bytes) -> Json:
        """Have the model read events (of `export`, or `{"role": …, "text": …}`), or a file of them, one a line."""
        if isinstance(events, Path):
            data = events.read_bytes()
        elif isinstance(events, bytes):
            data = events
        else:
            data = b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in events)
        return self._json("POST", "/v14/import", data)

    def explain(self, request_id: str) -> Json:
        """Why a request recalled what it did; `request_id` is `Answer.id`."""
        return self._json("GET", f"/v14/requests/{quote(request_id, safe='')}")

    def stats(self) -> Json:
        """How much the namespace holds, since when and until when."""
        return self._json("GET", "/v14/stats")

    def namespaces(self) -> list[Json]:
        """The namespaces that may be read, with how many events each holds."""
        found: list[Json] = self._read("GET", "/v14/namespaces", query={"namespace": None})
        return found

    def _json(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Json:  # fmt: skip
        found = self._read(method, path, body, headers, query)
        if not isinstance(found, dict):
            raise ServerError(
                f"{self.url}{path} answers something else than an object; give the address of SGLang itself"
            )
        return found

    def _read(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        connection, response = self._open(method, path, body, headers, query)
        try:
            return json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unheard(path, error) from error
        finally:
            connection.close()

    def _open(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:  # fmt: skip
        """A connection with its answer's head read. Raises `ServerError` unless the status is 200."""
        named = path.startswith("/v14/") and (method == "GET" or path == "/v14/import")
        asked = {"namespace": self.namespace if named else None, **(query or {})}
        given = urlencode({name: value for name, value in asked.items() if value not in (None, "")})
        try:
            parts = urlsplit(self.url if "//" in self.url else f"//{self.url}")
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            connection = kind(parts.hostname or "", parts.port, timeout=self.timeout_s)
        except ValueError as error:
            raise self._unheard("", error) from error
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        target = parts.path.rstrip("/") + path + (f"?{given}" if given else "")
        try:
            connection.request(method, target, content, {**self._headers(content), **(headers or {})})
            response = connection.getresponse()
            if response.status == 200:
                return connection, response
            said = _said(response.read(), response.reason)
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise self._unheard(path, error) from error
        connection.close()
        remedy = REMEDIES.get(response.status, "look at the server's log")
        raise ServerError(
            f"{self.url.rstrip('/')}{path} answers {response.status}: {said}. {remedy[0].upper()}{remedy[1:]}."
        )

    def _headers(self, content: bytes | None) -> dict[str, str]:
        headers = {} if content is None else {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        if self.namespace and self.namespace.isascii():
            # A server that believes what it is told wants it told here.
            headers["X-V14-Namespace"] = self.namespace
        return headers

    def _unheard(self, path: str, error: Exception) -> ServerError:
        return ServerError(
            f"{self.url.rstrip('/')}{path} cannot be asked: {error}. Give the address of a server that runs (url=, "
            "--server)."
        )


class AsyncClient:
    """`Client` for asyncio: the same arguments, and the same methods to be awaited; lists in the place of iterators."""

    def __init__(self, url: str = "http://127.0.0.1:30000", **options: Any) -> None:
        self.client = Client(url, **options)

    async def chat(self, messages: str | Sequence[Message], **options: Any) -> Answer:
        """See `Client.chat`."""
        return await asyncio.to_thread(self.client.chat, messages, **options)

    async def events(self, **selection: Any) -> list[Stored]:
        """See `Client.events`."""
        return await asyncio.to_thread(lambda: list(self.client.events(**selection)))

    async def search(self, text: str) -> list[Stored]:
        """See `Client.search`."""
        return await asyncio.to_thread(self.client.search, text)

    async def show(self, event_id: str) -> Stored:
        """See `Client.show`."""
        return await asyncio.to_thread(self.client.show, event_id)

    async def links(self, event_id: str) -> list[Linked]:
        """See `Client.links`."""
        return await asyncio.to_thread(self.client.links, event_id)

    async def unlink(self, later: str, earlier: str) -> Json:
        """See `Client.unlink`."""
        return await asyncio.to_thread(self.client.unlink, later, earlier)

    async def forget(self, ids: Sequence[str] = (), **selection: Any) -> Json:
        """See `Client.forget`."""
        return await asyncio.to_thread(lambda: self.client.forget(ids, **selection))

    async def export(self) -> list[Json]:
        """See `Client.export`."""
        return await asyncio.to_thread(lambda: list(self.client.export()))

    async def import_events(self, events: Iterable[Mapping[str, Any]] | Path | bytes) -> Json:
        """See `Client.import_events`."""
        return await asyncio.to_thread(self.client.import_events, events)

    async def explain(self, request_id: str) -> Json:
        """See `Client.explain`."""
        return await asyncio.to_thread(self.client.explain, request_id)

    async def stats(self) -> Json:
        """See `Client.stats`."""
        return await asyncio.to_thread(self.client.stats)

    async def namespaces(self) -> list[Json]:
        """See `Client.namespaces`."""
        return await asyncio.to_thread(self.client.namespaces)


def _told(kind: type[Event], told: Mapping[str, Any]) -> Event:
    """What a server tells of an event; newer ones may tell more."""
    names = {each.name for each in fields(kind)}
    return kind(**{name: value for name, value in told.items() if name in names})


def _answer(data: Json) -> Answer:
    told = (data.get("metadata") or {}).get("v14") or {}
    return Answer(
        text=data["choices"][0]["message"]["content"] or "",
        id=told.get("id", ""),
        memory=told.get("memory", ""),
        reason=told.get("reason", ""),
        recalled=_recalled(told),
        while_decoding=tuple(
            Look(at=look["at"], reason=look.get("reason", ""), recalled=_recalled(look))
            for look in told.get("while_decoding", ())
        ),
        raw=data,
    )


def _recalled(told: Json) -> tuple[Recalled, ...]:
    return tuple(_told(Recalled, event) for event in told.get("recalled", ()))


def _said(body: bytes, reason: str) -> str:
    """What a server says about an error, in its JSON or as it is."""
    text = body.decode(errors="replace")
    try:
        found = json.loads(text)
    except ValueError:
        return text[:200] or reason
    detail = (found.get("detail") or found.get("error") or found) if isinstance(found, dict) else found
    return str(detail.get("message", detail) if isinstance(detail, dict) else detail)
