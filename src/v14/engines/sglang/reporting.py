"""What the scheduler tells a client of a plan."""

from collections.abc import Callable, Sequence
from typing import Any

from v14.engines.sglang.reading import Reading
from v14.explain import described
from v14.types import Plan

Decode = Callable[[Sequence[int]], str]


def of_plan(plan: Plan, decode: Decode) -> dict[str, Any]:
    """The events that a plan recalls, the votes behind them and why."""
    votes = {vote.event_id: vote.value for vote in plan.votes}
    why = dict(zip((event.id for event in plan.events), plan.why, strict=False))
    return {
        "recalled": [
            described(event, votes.get(event.id)) | {"why": why.get(event.id), "text": decode(list(event.token_ids))}
            for event in plan.events
        ],
        "votes": [{"id": vote.event_id, "value": vote.value} for vote in plan.votes],
        "reason": plan.reason,
    }


def of_prompt(reading: Reading, plan: Plan, decode: Decode, vote_ms: float) -> dict[str, Any]:
    """Of the plan of a prompt that is read as `reading` says."""
    return {
        "id": reading.session.account.request_id,
        "span_tokens": len(reading.sequence.token_ids) - len(reading.token_ids),
        **of_plan(plan, decode),
        "floor": reading.session.memory.profile.options.recall_floor,
        "vote_ms": round(vote_ms, 3),
    }


def of_reply(plan: Plan, decode: Decode, *, at: int) -> dict[str, Any]:
    """Of a plan that was made when `at` tokens of a reply were accepted."""
    return {"at": at, "span_tokens": len(plan.token_ids), **of_plan(plan, decode)}
