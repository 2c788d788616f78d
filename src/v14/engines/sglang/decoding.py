"""Recall while a reply is written: how a request looks beside itself, and how it goes on behind what that recalled.

    accepted tokens     32 … 96 … 224 …                 the interval doubles
    a look              [ prompt | reply so far ]       a request of its own, of which nobody hears
    nothing recalled    [ prompt | reply … ]            the request was not touched
    recalled            [ head | span | question | later span | opening, reply so far … ]

A request that decodes shows nobody its queries: it runs in CUDA graphs. So its sequence is read once more beside it, up
to the last voter layer. What a look recalls stands behind what was read and in front of what was written; the request
is retracted, as SGLang retracts for room, and comes back as a prefill of its sequence with the later span in it. Its
tokens so far stay its own, so nothing that SGLang knows of a reply (stops, lengths, what was sent) changes.
"""

from dataclasses import replace
from typing import Any
from uuid import uuid4

from v14.config import Options
from v14.engines.sglang import arriving, reporting, retraction, seams
from v14.engines.sglang.reading import FIRST_LOOK, Later, Reading
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.ticket import KEY, Ticket
from v14.explain import Account
from v14.memory import Session
from v14.reinstate.layout import Layout, SpannedSequence
from v14.reinstate.transcripts import Placement

MOST_READ_AGAIN = 1024
"""Tokens of a question that a look reads again for the recurrent states behind them."""

WORTH = 16
"""Tokens that a request has to be able to write yet: for fewer nobody looks, and nothing is read again."""


def refused_while_decoding(server_args: Any, options: Options) -> list[str]:
    """What is not served together with `recall_while_decoding`."""
    if not options.recall_while_decoding:
        return []
    remedy = "write `recall_while_decoding: false` in the directory's config.json, or"
    lines = []
    if int(getattr(server_args, "tp_size", None) or 1) > 1:
        lines.append(
            f"--tp-size {server_args.tp_size} with `recall_while_decoding`: ranks do not look together; {remedy} serve "
            "with --tp-size 1"
        )
    if getattr(server_args, "speculative_algorithm", None) is not None:
        lines.append(
            f"--speculative-algorithm {server_args.speculative_algorithm} with `recall_while_decoding`: not run with "
            f"drafts; {remedy} serve without --speculative-algorithm"
        )
    return lines


def look(engine: Runtime, req: Any, reading: Reading, later: Later) -> None:
    """Queue a look at what a request has written since its last one, in front of all that wait."""
    num_written = len(req.output_ids)
    looked_at, later.looked_at = later.looked_at, num_written
    later.next_at += later.next_at + FIRST_LOOK
    queue = engine.scheduler.waiting_queue
    limit = engine.scheduler.max_queued_requests
    if not retraction.may_be_retracted(req) or _left(req) < WORTH or (limit is not None and len(queue) >= limit):
        return
    arrived = seams.look(later.arrived, f"v14-look-{uuid4().hex}")
    arriving.expect(engine, arrived, _aside(engine, req, reading, looked_at, arrived))
    engine.scheduler.handle_generate_request(arrived)
    if queue and queue[-1].rid == arrived.rid:
        queue.insert(0, queue.pop())
    engine.memory.counters["looks_while_decoding"] += 1


def _left(req: Any) -> int:
    return int(req.sampling_params.max_new_tokens) - len(req.output_ids)


def _aside(engine: Runtime, req: Any, reading: Reading, looked_at: int, arrived: Any) -> Reading:
    """The reading of a look: its new part is what was written since the last one. Spans stand in it as text."""
    written = tuple(req.output_ids)
    num_read = len(reading.sequence.token_ids)
    positions = (*reading.sequence.positions, *range(num_read, num_read + len(written)))
    return Reading(
        ticket=replace(reading.ticket, mode="read"),
        session=_session(engine, reading.ticket, req.rid),
        token_ids=(*reading.token_ids, *written),
        layout=Layout(new_start=len(reading.token_ids) + looked_at, placements=reading.placements),
        placements=(),
        sequence=SpannedSequence(
            token_ids=(*reading.sequence.token_ids, *written),
            positions=positions,
            starts=(),
        ),
        is_stored=True,
        is_stopped=True,
        original=arrived,
        beside=req,
        span_at=_span_at(engine, reading, positions),
    )


def _span_at(engine: Runtime, reading: Reading, positions: tuple[int, ...]) -> int | None:
    """Where a span would stand that is placed behind recurrent states: those there have to be computed by the look.

    Behind a long question it is read as text, rather than the question with every look.
    """
    position = positions[_opening(engine, reading)]
    is_placed = engine.states is not None and engine.reinstate == "kv"
    return position if is_placed and position - reading.new_position <= MOST_READ_AGAIN else None


def _session(engine: Runtime, ticket: Ticket, rid: str) -> Session:
    """A session of which no times are told and no record is kept: the request has its own. Its decision is traced."""
    memory = engine.memory
    session = memory.session(ticket.namespace, ticket.shared)
    session.account = Account(None, [], rid, trace=memory.switches.trace)
    return session


def decide(engine: Runtime, aside_req: Any, aside: Reading) -> None:
    """A look has read: end it, and have its request read again if the plan brings something."""
    aside.original = None
    seams.end_unheard(aside_req)
    req, cue = aside.beside, aside.cue
    reading: Reading = req.v14_reading
    later = reading.later
    if cue is None or req.finished() or later is None or later.plan is not None or _left(req) < WORTH:
        return
    if aside.cue_copied is not None:
        aside.cue_copied.synchronize()
    # What recalled is in place by now: votes rise behind it, so only what was not recalled yet may come.
    layout = replace(aside.layout, placements=reading.placements)
    room = engine.scheduler.max_req_len - len(reading.sequence.token_ids) - req.sampling_params.max_new_tokens - 1
    plan = aside.session.plan(cue, aside.token_ids, layout, max(0, room))
    if plan.events:
        later.plan = plan
        engine.due[req.rid] = req


def again(engine: Runtime, req: Any) -> Reading | None:
    """How a request that is due is read behind what it recalled; None if it goes on as it is."""
    reading: Reading = req.v14_reading
    later = reading.later
    plan = None if later is None else later.plan
    if later is None or plan is None or req.finished() or req.to_finish is not None or _left(req) < WORTH:
        return None
    later.plan = None
    session = reading.session
    placement = Placement(index=_opening(engine, reading), event_ids=tuple(event.id for event in plan.events))
    placements = (*reading.placements, placement)
    if session.standing(placements) != placements:
        return None  # something of it was forgotten meanwhile
    sequence = session.sequence(reading.token_ids, placements)
    session.record(reading.token_ids, placements)
    later.told.append(reporting.of_reply(plan, engine.scheduler.tokenizer.decode, at=len(req.output_ids)))
    if reading.recording is not None:
        reading.recording.events = ()  # they are read, and their engrams known
    return replace(reading, placements=placements, sequence=sequence, way=None, queries={}, cue=None, cue_copied=None)


def _opening(engine: Runtime, reading: Reading) -> int:
    """Where the reply's turn opens in the client's token ids; their end where there are no turns."""
    turns = engine.memory.cutter.turns.turns(reading.token_ids)
    last = turns[-1] if turns else None
    return last.start if last is not None and last.role == "assistant" else len(reading.token_ids)


def go_on(engine: Runtime, req: Any, reading: Reading) -> None:
    """Queue a request that was retracted once more, in front of all that wait, with its later span in its sequence."""
    assert reading.later is not None
    req.v14_reading = reading
    told = list((req.customized_info or {}).get(KEY) or ())
    told += [None] * (len(req.output_ids) - len(told))
    req.customized_info = {**(req.customized_info or {}), KEY: [*told, {"while_decoding": list(reading.later.told)}]}
    retraction.come_back(engine.scheduler, req, reading.sequence.token_ids)
    engine.memory.counters["recalls_while_decoding"] += 1
