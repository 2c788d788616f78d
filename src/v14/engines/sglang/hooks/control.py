"""Orders to the memory: sent by the HTTP process, answered by the scheduler."""

import asyncio
from collections.abc import Callable
from typing import Any

from sglang.srt.managers.io_struct import GetInternalStateReq, GetInternalStateReqOutput

from v14.engines.sglang import control, runtime


async def ask(manager: Any, what: str, **arguments: Any) -> control.Answer:
    """Send an order from the HTTP process and wait for its answer.

    Nothing takes the wait back: SGLang would give an answer that nobody waits for to whoever asks next.
    """
    manager.auto_create_handle_loop()
    request = GetInternalStateReq(rid=control.order(what, **arguments))
    outputs = await asyncio.shield(manager.get_internal_state_communicator(request))
    found: control.Answer = outputs[0].internal_state
    return found


def answer_order(original: Callable[..., Any], scheduler: Any, recv_req: Any) -> Any:
    """The internal state, or the answer to an order of the memory."""
    rid = getattr(recv_req, "rid", None)
    if not isinstance(rid, str) or not rid.startswith(control.PREFIX):
        return original(scheduler, recv_req)
    return GetInternalStateReqOutput(internal_state=control.answer(runtime.current(), rid))
