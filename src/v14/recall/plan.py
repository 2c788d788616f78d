"""From votes to a plan: which events to reinstate for one request, and why."""

from array import array
from collections.abc import Callable, Sequence

from v14.config import Options
from v14.recall.order import span_order
from v14.types import Event, Plan, Vote

TRACED_VOTES = 8
"""How many of the best votes a plan keeps for the trace."""


def make_plan(
    ranked: Sequence[Vote],
    lookup: Callable[[Sequence[str]], Sequence[Event]],
    options: Options,
    prompt_token_ids: Sequence[int],
    budget_tokens: int,
    *,
    order: Callable[[str], int] = lambda event_id: 0,
    sameness: Callable[[str, str], float] = lambda one, other: 0.0,
) -> Plan:
    """Choose the events to recall.

    ranked: votes of the namespace, strongest first (`Index.votes`). lookup: events by id; a `KeyError` means that one
    was forgotten meanwhile. order: which of two events said at the same time came first (`Index.order`). sameness:
    how far two events answer the same question (`Overlap.sameness`).

    An event is recalled when its vote reaches `recall_floor` and, as a share of the best vote that can be recalled,
    `recall_ratio`; at most `recall_max_events` and `budget_tokens` tokens. What the prompt holds already is not
    recalled, and of events that say the same (equal bodies, or one the beginning of the other) only the longest, or
    newest, is.

    `span_order` says in which order they stand.
    """
    prompt = _packed(prompt_token_ids)
    candidates: list[Event] = []
    bar = options.recall_floor
    found_best = False
    num_above, num_in_prompt = 0, 0
    for vote in ranked:
        if vote.value < bar:
            break
        try:
            (event,) = lookup([vote.event_id])
        except KeyError:
            continue
        num_above += 1
        if _contains(prompt, _packed(event.body)):
            num_in_prompt += 1
            continue
        if not found_best and options.recall_ratio > 0 < vote.value:
            bar = max(bar, options.recall_ratio * vote.value)
        found_best = True
        _merge(candidates, event)
    chosen = _within(candidates, options.recall_max_events, budget_tokens)
    return Plan(
        events=tuple(span_order(chosen, order, sameness)),
        votes=tuple(ranked[:TRACED_VOTES]),
        reason=_reason(ranked, options, num_above, num_in_prompt, len(candidates), len(chosen), budget_tokens),
    )


def _merge(candidates: list[Event], event: Event) -> None:
    """Append the event unless one says the same; of two that do, the longer, then the newer keeps the place."""
    for place, other in enumerate(candidates):
        shorter, longer = sorted((event.body, other.body), key=len)
        if longer[: len(shorter)] == shorter:
            if (len(event.body), event.said_at) > (len(other.body), other.said_at):
                candidates[place] = event
            return
    candidates.append(event)


def _within(candidates: Sequence[Event], max_events: int, budget_tokens: int) -> list[Event]:
    """The strongest candidates that fit; one that is too long leaves its room to the next."""
    chosen: list[Event] = []
    left = budget_tokens
    for event in candidates:
        if len(chosen) < max_events and event.num_tokens <= left:
            chosen.append(event)
            left -= event.num_tokens
    return chosen


def _packed(token_ids: Sequence[int]) -> bytes:
    return array("q", token_ids).tobytes()


def _contains(prompt: bytes, body: bytes) -> bool:
    """Whether one run of packed 64-bit ids occurs in another: a match of bytes counts only on an id's border."""
    place = prompt.find(body)
    while place >= 0 and place % 8:
        place = prompt.find(body, place + 1)
    return place >= 0


def _reason(
    ranked: Sequence[Vote],
    options: Options,
    num_above: int,
    num_in_prompt: int,
    num_candidates: int,
    num_chosen: int,
    budget_tokens: int,
) -> str:
    if not ranked:
        return "nothing is stored"
    if not num_above:
        return f"no vote reaches the floor: the best is {ranked[0].value:.3f}, the floor {options.recall_floor:.3f}"
    bar = f"floor {options.recall_floor:.3f} and ratio {options.recall_ratio:g}"
    parts = [f"{num_chosen} recalled of {num_above} above {bar}"]
    if num_in_prompt:
        parts.append(f"{num_in_prompt} stand in the prompt already")
    if num_above - num_in_prompt > num_candidates:
        parts.append(f"{num_above - num_in_prompt - num_candidates} say the same as another")
    if num_candidates > num_chosen:
        limit = f"{options.recall_max_events} events and {budget_tokens} tokens"
        parts.append(f"{num_candidates - num_chosen} over the limit of {limit}")
    return "; ".join(parts)
