"""The HTTP server is about to start: the gate goes in front of its routes, and the memory's own beside them."""

from functools import partial
from typing import Any

from sglang.srt.entrypoints import http_server

from v14.engines.sglang.gate import Gate
from v14.engines.sglang.hooks.control import ask
from v14.engines.sglang.hooks.front import front_of, is_up
from v14.engines.sglang.routes import router


def add_routes(server_args: Any, tokenizer_manager: Any, *args: Any, **kwargs: Any) -> None:
    """Before SGLang puts its own key in front of everything, and runs the server."""
    front = front_of(tokenizer_manager)
    if front is not None:
        app, tokenizer = http_server.app, tokenizer_manager.tokenizer
        app.add_middleware(
            Gate, namespaces=front.namespaces, is_up=lambda: is_up(tokenizer_manager), counters=front.counters
        )
        app.include_router(router(front, partial(ask, tokenizer_manager), tokenizer.decode))
