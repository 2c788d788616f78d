"""A small chat client: the OpenAI chat API with the memory's headers and its account of what it recalled."""

import contextlib
import http.client
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from v14.config import Mode
from v14.errors import CheckError

NAMESPACE_HEADER = "X-V14-Namespace"
MEMORY_HEADER = "X-V14-Memory"

Message = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """One event that a reply was given with."""

    id: str
    role: str
    vote: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Account:
    """What the memory says it did for one request: `votes` best first, `floor` the lowest vote that recalls, `memory`
    the mode that the request was served in."""

    recalled: tuple[Recalled, ...] = ()
    votes: tuple[float, ...] = ()
    floor: float | None = None
    reason: str = ""
    memory: str = ""

    @classmethod
    def parse(cls, metadata: Any) -> "Account | None":
        """The account in a reply's `metadata`; None from a server without the memory."""
        data = metadata.get("v14") if isinstance(metadata, dict) else None
        if not isinstance(data, dict):
            return None
        recalled = tuple(
            Recalled(id=event["id"], role=event["role"], vote=event["vote"], text=event["text"])
            for event in data.get("recalled", ())
        )
        votes = tuple(vote["value"] for vote in data.get("votes", ()))
        return cls(
            recalled=recalled,
            votes=votes,
            floor=data.get("floor"),
            reason=data.get("reason", ""),
            memory=data.get("memory", ""),
        )


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer. A streamed one says when its first piece and its end came, in seconds from sending the request."""

    text: str
    account: Account | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    first_token_s: float = 0.0
    last_token_s: float = 0.0

    @property
    def decode_tokens_per_s(self) -> float:
        """Speed behind the first token of a streamed reply; 0 if it came in one piece."""
        seconds = self.last_token_s - self.first_token_s
        return (self.completion_tokens - 1) / seconds if seconds > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class ChatClient:
    """Talks to the server at `url` in one namespace; safe to use from several threads."""

    url: str
    namespace: str = "default"
    timeout_s: float = 600.0

    def chat(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        memory: Mode = "both",
    ) -> Reply:
        """One greedy reply. Raises `CheckError` if the server does not give one."""
        data = self._json("POST", "/v1/chat/completions", self._body(messages, max_tokens), memory)
        usage = data.get("usage") or {}
        return Reply(
            text=data["choices"][0]["message"]["content"] or "",
            account=Account.parse(data.get("metadata")),
            prompt_tokens=usage.get("prompt_tokens", 0),
            completion_tokens=usage.get("completion_tokens", 0),
        )

    def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        memory: Mode = "both",
        drop_after: int | None = None,
        whole_length: bool = False,
    ) -> Reply:
        """One greedy reply, streamed and timed.

        `drop_after` closes the connection when that many pieces came; `whole_length` goes on to `max_tokens`
        past the end of the reply. Raises `CheckError` like `chat`.
        """
        body = self._body(messages, max_tokens) | {"stream": True, "stream_options": {"include_usage": True}}
        if whole_length:
            body["ignore_eos"] = True
        pieces: list[str] = []
        first = end = 0.0
        last: dict[str, Any] = {}
        start = time.perf_counter()
        connection = self._connect()
        try:
            for chunk in self._events(connection, body, memory):
                if "error" in chunk:
                    raise CheckError(f"{self.url} broke a stream off: {chunk['error']}; look at the server's log")
                for choice in chunk.get("choices") or ():
                    if choice["delta"].get("content"):
                        pieces.append(choice["delta"]["content"])
                    # Tokens without text, at the end of a reply, come as nothing but its finish.
                    if pieces and (choice["delta"].get("content") or choice.get("finish_reason")):
                        end = time.perf_counter() - start
                        first = first or end
                if len(pieces) == drop_after:
                    break
                last |= {key: chunk[key] for key in ("usage", "metadata") if chunk.get(key)}
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            raise CheckError(f"{self.url} broke a stream off: {error!r}; look at the server's log") from error
        finally:
            connection.close()
        if not pieces:
            raise CheckError(f"{self.url} streamed nothing; look at the server's log")
        usage = last.get("usage") or {}
        return Reply(
            text="".join(pieces),
            account=Account.parse(last.get("metadata")),
            prompt_tokens=usage.get("prompt_tokens", 0),
            completion_tokens=usage.get("completion_tokens", len(pieces)),
            first_token_s=first,
            last_token_s=end,
        )

    def model(self) -> str:
        """The name of the served model."""
        return str(self._json("GET", "/v1/models")["data"][0]["id"])

    def facts(self) -> Mapping[str, Any]:
        """What the server says of itself and its model, as far as it does (`/server_info`, `/model_info`)."""
        found: dict[str, Any] = {}
        # Of the two names of each route, older versions of SGLang know the longer one alone.
        for names in (("/server_info", "/get_server_info"), ("/model_info", "/get_model_info")):
            for name in names:
                with contextlib.suppress(CheckError):
                    found |= self.get(name)
                    break
        return found

    def get(self, path: str) -> dict[str, Any]:
        """A JSON object of the server's. Raises `CheckError`."""
        return self._json("GET", path)

    def healthy(self) -> bool:
        """Whether the server says that it can answer."""
        connection = self._connect()
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _body(self, messages: Sequence[Message], max_tokens: int) -> dict[str, Any]:
        return {"model": "default", "messages": list(messages), "temperature": 0, "max_tokens": max_tokens}

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        if not parts.hostname:
            raise CheckError(f"{self.url!r} is no address of a server; give one like http://127.0.0.1:30000")
        return kind(parts.hostname, parts.port, timeout=self.timeout_s)

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Any, memory: Mode
    ) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json", NAMESPACE_HEADER: self.namespace, MEMORY_HEADER: memory}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != 200:
            raise CheckError(
                f"{self.url}{path} answered {response.status}: {response.read()[:500]!r}; look at the server's log"
            )
        return response

    def _json(self, method: str, path: str, body: Any = None, memory: Mode = "both") -> dict[str, Any]:
        connection = self._connect()
        try:
            data = json.loads(self._send(connection, method, path, body, memory).read())
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            raise CheckError(
                f"{self.url}{path} gave no answer: {error!r}; is the server up, and is this its address?"
            ) from error
        finally:
            connection.close()
        if not isinstance(data, dict):
            raise CheckError(
                f"{self.url}{path} answered something else than a JSON object; give the address of SGLang itself"
            )
        return data

    def _events(self, connection: http.client.HTTPConnection, body: Any, memory: Mode) -> Iterator[dict[str, Any]]:
        response = self._send(connection, "POST", "/v1/chat/completions", body, memory)
        for line in response:
            if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                yield json.loads(line.removeprefix(b"data: "))
