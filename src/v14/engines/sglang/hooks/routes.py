"""The HTTP server is about to start: the gate goes in front of its routes, and the memory's own beside them."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from sglang.srt.entrypoints import http_server
from sglang.srt.managers.io_struct import GenerateReqInput

from v14.engines.sglang import seams
from v14.engines.sglang.directory import load_profile
from v14.engines.sglang.front import TICKET_ATTRIBUTE
from v14.engines.sglang.gate import Gate
from v14.engines.sglang.hooks.control import ask
from v14.engines.sglang.hooks.front import front_of, is_up
from v14.engines.sglang.importing import Importer, import_router
from v14.engines.sglang.routes import router
from v14.engines.sglang.schema import schema_router
from v14.engines.sglang.ticket import Ticket
from v14.inspector.serve import page

logger = logging.getLogger("v14")


def add_routes(server_args: Any, tokenizer_manager: Any, *args: Any, **kwargs: Any) -> None:
    """Before SGLang puts its own key in front of everything, and runs the server."""
    front = front_of(tokenizer_manager)
    if front is not None:
        app, tokenizer = http_server.app, tokenizer_manager.tokenizer
        app.add_middleware(
            Gate, namespaces=front.namespaces, is_up=lambda: is_up(tokenizer_manager), counters=front.counters
        )
        orders = partial(ask, tokenizer_manager)
        importer = Importer(
            cutter=load_profile(tokenizer_manager.model_path).cutter,
            tokenizer=tokenizer,
            vocab_size=tokenizer_manager.model_config.vocab_size,
            read=partial(read_told, tokenizer_manager),
            ask=orders,
            room_tokens=lambda: seams.room_tokens(tokenizer_manager),
        )
        routers = (router(front, orders, tokenizer.decode), import_router(front, importer))
        for routes in (*routers, schema_router(*routers), page()):
            app.include_router(routes)


async def read_told(manager: Any, token_ids: Sequence[int], ticket: Ticket) -> None:
    """Have the scheduler read token ids under a ticket; a request that fails is logged."""
    request = GenerateReqInput(
        input_ids=list(token_ids), sampling_params={"max_new_tokens": 1, "temperature": 0.0}, stream=False
    )
    setattr(request, TICKET_ATTRIBUTE, ticket)
    try:
        async for _ in manager.generate_request(request, None):
            pass
    except ValueError as error:
        logger.error("a sequence of an import was not read: %s", error)
