"""A request enters the scheduler: its reading is opened, and hung on the engine's own request."""

from typing import Any

from v14.engines.sglang import arriving, runtime
from v14.engines.sglang.ticket import KEY, Ticket

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def arrive(scheduler: Any, recv_req: Any, **kwargs: Any) -> Arguments | None:
    """Put spans into the token ids of a request that carries a ticket."""
    engine = runtime.current()
    params = getattr(recv_req.sampling_params, "custom_params", None)
    if engine is None or not params:
        return None
    with engine.memory.guard("arrive"):
        ticket = Ticket.of(params)
        if ticket is not None:
            arriving.arrive(engine, recv_req, ticket)
    return None


def attach(scheduler: Any, req: Any, is_retracted: bool = False) -> Arguments | None:
    """Hang the reading on the engine's request, where it lives and dies with it."""
    engine = runtime.current()
    if engine is None:
        return None
    reading = engine.arriving.pop(req.rid, None)
    if reading is not None:
        req.v14_reading = reading
        engine.attached[req.rid] = req
        if reading.is_looking:
            engine.probing[req.rid] = req
        if reading.beside is not None:
            req.finished_output = True  # nobody hears of a look, however it ends
        if reading.report is not None:
            req.customized_info = {**(req.customized_info or {}), KEY: [reading.report]}
    return None
