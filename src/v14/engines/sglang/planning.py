"""What a request recalls: votes and plan at its first reading, and the way back to be read again behind its span."""

import time
from typing import Any

from v14.engines.sglang import arriving, cues, seams
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.reporting import of_prompt
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.telling import DECISION, Decision, ToldSession
from v14.engines.sglang.ticket import KEY
from v14.types import Cue, Plan


def decide(engine: Runtime, req: Any, reading: Reading) -> None:
    """The prompt of a looking request is read: make its plan, and end the request if it is to be read again."""
    original, reading.original = reading.original, None
    if not reading.is_planned:
        plan(engine, reading)
    if reading.again is not None:
        arriving.expect(engine, original, reading.again)
        engine.ended[req.rid] = original
        seams.end_unheard(req)
    elif reading.report is not None:
        req.customized_info = {**(req.customized_info or {}), KEY: [reading.report]}


def plan(engine: Runtime, reading: Reading) -> bool:
    """Votes and plan for a reading whose cue is kept; True if it is to be read again.

    All that can fail is done here: what is left is to end the request (`decide`).
    """
    cue, reading.cue = reading.cue, None
    reading.is_planned = True
    if cue is None and engine.ranks.size == 1:
        return False  # it failed, and was logged; of several ranks, the others have to hear of it
    whole = cues.whole(engine, reading, cue)
    decision = engine.ranks.told(DECISION, lambda: _decided(engine, reading, whole))
    if not decision.recalls:
        if reading.recording is not None:
            reading.recording.forget_heads()
        reading.report = decision.report
        return False
    again = engine.ranks.agreed(lambda: _again(engine, reading, decision))
    reading.again = again
    return True


def _decided(engine: Runtime, reading: Reading, cue: Cue | None) -> Decision:
    assert cue is not None
    session = reading.session
    plan, vote_ms = _voted(engine, reading, cue)
    if not plan.events:
        session.record(reading.token_ids, reading.placements)
        return Decision(report=of_prompt(reading, plan, engine.scheduler.tokenizer.decode, vote_ms))
    placements = session.placed(reading.layout, plan)
    again = arriving.reading_of(engine, reading.ticket, session, reading.token_ids, reading.layout, placements)
    return Decision(
        report=of_prompt(again, plan, engine.scheduler.tokenizer.decode, vote_ms),
        placements=placements,
        events=tuple(event for placement in placements for event in session.events(placement)),
    )


def _voted(engine: Runtime, reading: Reading, cue: Cue) -> tuple[Plan, float]:
    """The plan, and the milliseconds that it took."""
    started, account = time.perf_counter(), reading.session.account
    with account.clock.measure("wait"):
        if reading.cue_copied is not None:
            reading.cue_copied.synchronize()
        engine.settle(*reading.session.reads)
    room = engine.scheduler.max_req_len - len(reading.sequence.token_ids) - reading.ticket.max_new_tokens - 1
    plan = reading.session.plan(cue, reading.token_ids, reading.layout, max(0, room))
    account.clock.add("probe", time.perf_counter() - account.opened)
    return plan, (time.perf_counter() - started) * 1e3


def _again(engine: Runtime, reading: Reading, decision: Decision) -> Reading:
    session = reading.session
    if isinstance(session, ToldSession):
        session.learn(decision.events)
    again = arriving.reading_of(engine, reading.ticket, session, reading.token_ids, reading.layout, decision.placements)
    session.record(again.token_ids, again.placements)
    again.report, again.later = decision.report, reading.later
    return again


def read_again(engine: Runtime, req: Any) -> None:
    """Queue a request that ended with its plan once more, in front of those that were never begun."""
    original = engine.ended.pop(req.rid)
    engine.scheduler.handle_generate_request(original)
    queue = engine.scheduler.waiting_queue
    if queue and queue[-1].rid == req.rid:
        queue.insert(0, queue.pop())
