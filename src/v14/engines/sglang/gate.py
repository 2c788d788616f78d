"""The door of the HTTP server: where namespaces are apart, people's requests without one are refused, 401 or 403.

The front refuses as well, whatever the route, and is what the separation rests on. But inside a streamed reply an error
comes with status 200, so that a client has to read it to know; here it still has a status.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from v14.errors import RefusedError
from v14.namespaces import Namespaces

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PREFIXES = ("/v1/", "/api/")
PATHS = frozenset({"/generate", "/encode", "/classify", "/invocations", "/vertex_generate", "/open_session"})
"""Routes of SGLang that take or give people's text. The others are its operator's, who has keys of SGLang for them."""

OPEN = ("/v1/models", "/v1/loads", "/api/tags", "/api/show")
"""Routes among them that only tell which model is served, and how busy it is."""


class Gate:
    """Middleware (ASGI) in front of SGLang's routes."""

    def __init__(self, app: App, namespaces: Namespaces, is_up: Callable[[], bool], counters: Counter[str]) -> None:
        """`is_up` tells whether the server's warm-up is over, whose requests have no key; refusals are counted in
        `counters`."""
        self._app, self._namespaces, self._is_up, self._counters = app, namespaces, is_up, counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if self._namespaces.policy != "open" and _is_peoples(scope) and self._is_up():
            try:
                _ = self._namespaces.access(headers_of(scope)).own
            except RefusedError as error:
                self._counters[f"refused_{error.status_code}"] += 1
                await _refuse(scope, send, error)
                return
        await self._app(scope, receive, send)


def headers_of(scope: Scope) -> Mapping[str, str]:
    """Headers of an ASGI scope by name in lower case."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope.get("headers", ())}


def _is_peoples(scope: Scope) -> bool:
    path = scope.get("path", "")
    if scope["type"] == "websocket":
        return True
    if scope["type"] != "http" or scope["method"] == "OPTIONS" or path.startswith(OPEN):
        return False
    return path.startswith(PREFIXES) or path in PATHS


async def _refuse(scope: Scope, send: Send, error: RefusedError) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": str(error)[:120]})
        return
    body = json.dumps(
        {"error": {"message": str(error), "type": "namespace_refused", "param": None, "code": error.status_code}}
    ).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.status_code == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": error.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
