"""A request arrives: what is already in place for it is put into its token ids, and its reading is opened.

Of several ranks the first says how it is read, and all open it (`ranks.py`).
"""

from array import array
from functools import partial
from typing import Any

from v14.engines.sglang import seams
from v14.engines.sglang.reading import Later, Reading
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.telling import OPENING, Opening, ToldSession
from v14.engines.sglang.ticket import Ticket
from v14.memory import Session
from v14.reinstate.layout import Layout
from v14.reinstate.transcripts import Placement

MAX_ARRIVING = 4096
"""Readings that may wait for their request to be queued (a grammar is compiled in between)."""


def arrive(engine: Runtime, recv_req: Any, ticket: Ticket) -> None:
    """Open a reading for an arriving request, and give it the token ids that the engine is to read."""
    session_of = engine.memory.session if engine.ranks.leads else partial(ToldSession, engine.memory)
    session = session_of(ticket.namespace, ticket.shared, request_id=recv_req.rid)
    token_ids = tuple(recv_req.input_ids)
    opening = engine.ranks.told(OPENING, lambda: _opening(engine, ticket, session, token_ids))
    expect(
        engine, recv_req, engine.ranks.agreed(lambda: _opened(engine, recv_req, ticket, session, token_ids, opening))
    )


def _opening(engine: Runtime, ticket: Ticket, session: Session, token_ids: tuple[int, ...]) -> Opening:
    layout = session.layout(token_ids)
    placements = session.standing(layout.placements) if ticket.reads else ()
    return Opening(
        layout=layout,
        placements=placements,
        events=tuple(event for placement in placements for event in session.events(placement)),
        looks=ticket.reads and _may_hold(engine, session),
    )


def _opened(
    engine: Runtime, recv_req: Any, ticket: Ticket, session: Session, token_ids: tuple[int, ...], opening: Opening
) -> Reading:
    if isinstance(session, ToldSession):
        session.learn(opening.events)
    reading = reading_of(engine, ticket, session, token_ids, opening.layout, opening.placements)
    if opening.looks:
        reading.original = seams.copied(recv_req)
        if engine.memory.profile.options.recall_while_decoding:
            reading.later = Later(arrived=reading.original)
    else:
        session.record(token_ids, reading.placements)
    return reading


def _may_hold(engine: Runtime, session: Session) -> bool:
    """Whether there can be anything to recall: an empty memory costs nothing."""
    return engine.is_writing(session.reads) or not session.is_empty()


def reading_of(
    engine: Runtime,
    ticket: Ticket,
    session: Session,
    token_ids: tuple[int, ...],
    layout: Layout,
    placements: tuple[Placement, ...],
) -> Reading:
    """A reading with these spans in place, or without any where there is no room for them."""
    sequence = session.sequence(token_ids, placements)
    if len(sequence.token_ids) + ticket.max_new_tokens >= engine.scheduler.max_req_len:
        placements, sequence = (), session.sequence(token_ids, ())
    return Reading(
        ticket=ticket, session=session, token_ids=token_ids, layout=layout, placements=placements, sequence=sequence
    )


def expect(engine: Runtime, recv_req: Any, reading: Reading) -> None:
    """Have a reading ready for when its request is queued."""
    recv_req.input_ids = array("q", reading.sequence.token_ids)
    engine.arriving[recv_req.rid] = reading
    while len(engine.arriving) > MAX_ARRIVING:
        engine.arriving.popitem(last=False)
