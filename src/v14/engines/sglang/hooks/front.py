"""The HTTP process: binds `v14.engines.sglang.front.Front` to SGLang's request path."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from sglang.srt.entrypoints import http_server
from sglang.srt.managers.io_struct import GenerateReqInput
from sglang.srt.managers.tokenizer_manager import ServerStatus

from v14.config import Switches
from v14.engines.sglang import seams
from v14.engines.sglang.directory import is_v14_directory
from v14.engines.sglang.front import TICKET_ATTRIBUTE, USER_ATTRIBUTE, Front, Generate, prepare
from v14.engines.sglang.ticket import KEY, Ticket
from v14.namespaces import Namespaces

FRONT_ATTRIBUTE = "v14_front"


def keep_user(result: Any, serving: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
    """Carry the `user` field of an OpenAI request on to the front; SGLang itself drops it."""
    user = getattr(request, "user", None)
    if isinstance(user, str) and user:
        setattr(result[0], USER_ATTRIBUTE, user)
    return result


def front_of(manager: Any) -> Front | None:
    """The front of a TokenizerManager; None where the model has no memory."""
    if not hasattr(manager, FRONT_ATTRIBUTE):
        switches = Switches.read()
        front = None
        if switches.memory and is_v14_directory(manager.model_path):
            front = Front(Namespaces.open(switches), lambda: is_up(manager))
            if seams.metrics_enabled(manager.server_args):
                # Imported only now: see there.
                from v14.engines.sglang.metrics import Exporter

                exporter = Exporter(seams.served_name(manager.server_args))
                exporter.watch(front.counters)
                exporter.start()
        setattr(manager, FRONT_ATTRIBUTE, front)
    found: Front | None = getattr(manager, FRONT_ATTRIBUTE)
    return found


def is_up(manager: Any) -> bool:
    """Whether requests are people's: an HTTP server starts with a warm-up of its own, an offline engine does not."""
    return http_server.get_global_state() is None or manager.server_status == ServerStatus.Up


async def generate_with_memory(
    original: Generate, manager: Any, obj: Any, request: Any = None
) -> AsyncIterator[dict[str, Any]]:
    """SGLang's `TokenizerManager.generate_request` with memory; other requests than generation pass through."""
    front = front_of(manager)
    headers: Mapping[str, str] = request.headers if request is not None else {}

    def bound(inner: Any, http_request: Any) -> AsyncIterator[dict[str, Any]]:
        return original(manager, inner, http_request)

    own = getattr(obj, TICKET_ATTRIBUTE, None)
    if front is None or not isinstance(obj, GenerateReqInput):
        outputs = bound(obj, request)
    elif isinstance(own, Ticket):
        prepare(obj, own)
        outputs = bound(obj, request)
    else:
        outputs = front.generate(bound, obj, request, headers)
    async for output in outputs:
        yield output


def report_in_reply(
    reply: Any, serving: Any, request: Any, ret: list[dict[str, Any]], *args: Any, **kwargs: Any
) -> Any:
    """Put the memory's report into the reply's `metadata`."""
    report = ret[0].get("meta_info", {}).get(KEY) if ret else None
    if report is not None and hasattr(reply, "metadata"):
        reply.metadata = {**(reply.metadata or {}), KEY: report}
    return reply
