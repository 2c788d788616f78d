"""From votes to a plan: which events to reinstate for one request, and why."""

from collections.abc import Callable, Mapping, Sequence

from v14.config import Options
from v14.events.runs import contains, packed
from v14.recall.associations import Lead, behind, leads
from v14.recall.doubt import Doubt
from v14.recall.neighbours import Neighbours, whole_sentences
from v14.recall.order import SAME, span_order
from v14.recall.rarity import RARE
from v14.recall.weighing import LateOf, VoteOf, found, least_strength, standing, weigh
from v14.recall.wording import Wording
from v14.types import Event, Plan, Vote

TRACED_VOTES = 8
"""How many of the best votes a plan keeps for the trace."""

COMPLETED = "one sentence with"
"""How the reason begins for which a neighbour is there."""


def make_plan(
    ranked: Sequence[Vote],
    lookup: Callable[[Sequence[str]], Sequence[Event]],
    options: Options,
    prompt_token_ids: Sequence[int],
    budget_tokens: int,
    *,
    order: Callable[[str], int] = lambda event_id: 0,
    wording: Wording | None = None,
    votes: VoteOf | None = None,
    late: LateOf = lambda ids: {},
    doubt: Doubt | None = None,
    asks: Callable[[Event], bool] = lambda event: False,
    superseded: Callable[[str], Mapping[str, float]] | None = None,
    neighbours: Neighbours | None = None,
) -> Plan:
    """Choose the events to recall.

    ranked: the `MAX_WEIGHED` best votes of what is read, strongest first (`Ballot.best`). votes: those of events that
    the question names (`Ballot.of`); without it only what is ranked is weighed. late: what the cue's last tokens give
    to votes (`Reach.late`). lookup: events by id; a `KeyError`
    means that one was forgotten meanwhile. order: which of two events said at the same time came first (`Index.order`).
    wording: what events have of the question's words, and of each other's; without it votes decide alone. doubt: when
    a plan is sure; without it votes decide alone, too. asks: whether an event only asks. superseded: which later events
    correct one, with their scores; None where the question asks for what was before. neighbours: what stands beside an
    event in its turn; a sentence cut in two is brought whole.

    Weighed are the events with the best votes, and those that have most of the question's rare words. Where
    words tell them apart and there is a `doubt`, they rank by their odds, and nothing is recalled unless a plan with
    the best is sure (`weighing.found`), by `recall_sure`; elsewhere votes decide alone, by `recall_floor`. Then it is
    every event that has `recall_ratio` of the best one's odds, or vote, or is sure itself, or tells of the same; at
    most `recall_max_events`, and `recall_max_linked` that these lead to by `recall_linked`, within `budget_tokens`
    tokens. What the prompt holds already is not recalled, and of events that say the same (equal bodies, or one the
    beginning of the other) only the longest, or newest, is. What only asks is not recalled, nor what a weighed event
    corrects by `recall_superseded`, if both tell of what the question asks.

    `span_order` says in which order they stand; what was led to stands in front, but behind what leads to it where it
    completes what is asked: small models read the answer best directly in front of the question.
    """
    wording = wording or Wording((), ())
    can = _Can(lookup, packed(prompt_token_ids))
    votes = votes or _among(ranked)
    everything = weigh(ranked, votes, can.recall, options, wording, doubt, late)
    weighed = found([each for each in everything if not asks(each.event)], options, wording, doubt)
    if superseded is not None:
        weighed = standing(weighed, superseded, options.recall_superseded, wording)
    bar = least_strength(weighed, options, wording, doubt)
    above = [
        each
        for each in weighed
        if each.strength >= bar or (wording.tells and wording.sameness(weighed[0].event.id, each.event.id) >= SAME)
    ]
    candidates: list[Event] = []
    for each in above:
        _merge(candidates, each.event)
    chosen = _within(candidates, options.recall_max_events, budget_tokens)
    num_found = len(chosen)
    linked = _linked(chosen, can, asks, wording, options, budget_tokens)
    beside = whole_sentences(chosen, neighbours, can.recall, budget_tokens) if neighbours else {}
    chosen += [event for event, _ in beside.values()]
    why = {each.event.id: each.why for each in above}
    for lead in linked:
        why[lead.event_id] = f"linked with {lead.source[:15]}, which shares {lead.shared:.2f} with it"
    why |= {id: f"{COMPLETED} {event.id[:15]}, which stands beside it" for id, (_, event) in beside.items()}
    completing = {lead.event_id for lead in linked if lead.completed >= RARE}
    chosen.sort(key=lambda event: event.id not in completing)
    events = span_order(chosen, order, wording.sameness)
    return Plan(
        events=tuple(events),
        why=tuple(why[event.id] for event in events),
        votes=tuple(ranked[:TRACED_VOTES]),
        reason=_reason(
            ranked,
            options,
            len(above) + can.num_in_prompt,
            can.num_in_prompt,
            len(candidates),
            num_found,
            len(linked),
            budget_tokens,
        ),
    )


def _among(ranked: Sequence[Vote]) -> VoteOf:
    """The votes of those of some events that are ranked."""
    known = {vote.event_id: vote.value for vote in ranked}
    return lambda ids: {event_id: known[event_id] for event_id in ids if event_id in known}


class _Can:
    """Which events can be recalled: those that are still there, and not in the prompt already."""

    def __init__(self, lookup: Callable[[Sequence[str]], Sequence[Event]], prompt: bytes) -> None:
        self._lookup = lookup
        self._prompt = prompt
        self.num_in_prompt = 0

    def recall(self, event_id: str) -> Event | None:
        """The event, None where it cannot be recalled."""
        try:
            (event,) = self._lookup([event_id])
        except KeyError:
            return None
        if contains(self._prompt, packed(event.body)):
            self.num_in_prompt += 1
            return None
        return event


def _linked(
    chosen: list[Event],
    can: _Can,
    asks: Callable[[Event], bool],
    wording: Wording,
    options: Options,
    budget_tokens: int,
) -> list[Lead]:
    """Add to `chosen`, behind what is there, events that it leads to, and that these lead to in turn."""
    taken: list[Lead] = []
    passed = {event.id for event in chosen}
    left = budget_tokens - sum(event.num_tokens for event in chosen)
    open_leads = leads(behind(passed, wording), wording) if options.recall_max_linked else []
    while len(taken) < options.recall_max_linked:
        open_leads = [lead for lead in open_leads if lead.event_id not in passed]
        lead = max(open_leads, key=lambda lead: (lead.strength, lead.event_id), default=None)
        if lead is None or lead.strength < options.recall_linked:
            break
        passed.add(lead.event_id)
        event = can.recall(lead.event_id)
        if (
            event is None
            or asks(event)
            or event.num_tokens > left
            or any(_says_the_same(event, other) for other in chosen)
        ):
            continue
        left -= event.num_tokens
        chosen.append(event)
        taken.append(lead)
        open_leads += leads({event.id: 0.0}, wording)
    return taken


def _merge(candidates: list[Event], event: Event) -> None:
    """Append the event unless one says the same; of two that do, the longer, then the newer keeps the place."""
    for place, other in enumerate(candidates):
        if _says_the_same(event, other):
            if (len(event.body), event.said_at) > (len(other.body), other.said_at):
                candidates[place] = event
            return
    candidates.append(event)


def _says_the_same(one: Event, other: Event) -> bool:
    shorter, longer = sorted((one.body, other.body), key=len)
    return longer[: len(shorter)] == shorter


def _within(candidates: Sequence[Event], max_events: int, budget_tokens: int) -> list[Event]:
    """The strongest candidates that fit; one that is too long leaves its room to the next."""
    chosen: list[Event] = []
    left = budget_tokens
    for event in candidates:
        if len(chosen) < max_events and event.num_tokens <= left:
            chosen.append(event)
            left -= event.num_tokens
    return chosen


def _reason(
    ranked: Sequence[Vote],
    options: Options,
    num_above: int,
    num_in_prompt: int,
    num_candidates: int,
    num_chosen: int,
    num_linked: int,
    budget_tokens: int,
) -> str:
    if not ranked:
        return "nothing is stored"
    if not num_above and ranked[0].value >= options.recall_floor:
        return f"not sure: the best vote is {ranked[0].value:.3f}, and little of what was asked stands in any event"
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
    if num_linked:
        parts.append(f"{num_linked} more that these lead to")
    return "; ".join(parts)
