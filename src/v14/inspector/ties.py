"""One event and what it is tied to: links that are stored, events that its rare words lead to, who recalled it."""

from v14.errors import SelectionError
from v14.inspector.look import Told, shown
from v14.inspector.stories import asked_ids
from v14.memory import Memory
from v14.recall.rarity import RARE
from v14.recall.terms import Overlap, pair
from v14.recall.wording import Wording
from v14.store.glance import Glance
from v14.types import ROOT_ID, Link

NUM_TIES = 12
"""Events shown of each kind: a graph of more is no picture."""


def event(memory: Memory, namespace: str, event_id: str) -> Told:
    """An event with its ties. Raises `SelectionError` where the namespace does not hold it."""
    glances = {glance.id: glance for glance in memory.store.glances(namespace)}
    found = shown(memory, namespace, [glances[event_id]] if event_id in glances else [])
    if not found:
        raise SelectionError(f"namespace {namespace!r} holds no event {event_id}; look in another one")
    parent = found[0]["parent"]
    return {
        "event": found[0],
        "before": next(iter(shown(memory, namespace, _known(glances, parent))), None) if parent != ROOT_ID else None,
        "links": _links(memory, namespace, event_id, glances),
        "leads": _leads(memory, namespace, event_id, glances),
        "recalled_by": [
            {"id": record.request_id, "at": record.at, "asked_ids": asked_ids(record, memory)}
            for record in memory.records.of(namespace)
            if any(event.id == event_id and event.namespace == namespace for event in record.plan.events)
        ][:NUM_TIES],
    }


def _links(memory: Memory, namespace: str, event_id: str, glances: dict[str, Glance]) -> list[Told]:
    """Stored links that begin or end at an event, strongest first."""
    mine = [link for link in memory.store.links(namespace) if event_id in (link.source, link.target)]
    mine.sort(key=lambda link: -link.weight)
    return [
        {"kind": link.kind, "weight": link.weight, "outgoing": link.source == event_id, "event": other}
        for link in mine[:NUM_TIES]
        for other in shown(memory, namespace, _known(glances, _other_end(link, event_id)))
    ]


def _leads(memory: Memory, namespace: str, event_id: str, glances: dict[str, Glance]) -> list[Told]:
    """The events that share rare words with an event, with how much and which."""
    space = memory.space(namespace)
    with space.lock:
        overlap = Overlap([space.terms])
        led = Wording([space.lexicon], ()).led_to(event_id)
        strongest = sorted(((other, weight) for other, (weight, _) in led.items()), key=lambda item: -item[1])[
            :NUM_TIES
        ]
        shared = {other: _shared_ids(overlap, event_id, other) for other, _ in strongest}
    return [
        {"shared": weight, "shared_ids": shared[other], "event": event}
        for other, weight in strongest
        for event in shown(memory, namespace, _known(glances, other))
    ]


def _shared_ids(overlap: Overlap, event_id: str, other: str) -> list[int]:
    """Tokens of what two events share, alone or with a neighbour, and what is rare; the rarest first."""
    both = overlap.terms(event_id) & overlap.terms(other)
    rarities = {term: rarity for term in both if (rarity := overlap.rarity(term)) >= RARE}
    found: dict[int, float] = {}
    sequence = overlap.sequence(other)
    for before, token in zip((None, *sequence), sequence, strict=False):
        if token in rarities:
            found[token] = max(found.get(token, 0.0), rarities[token])
        if before is not None and (both_of := pair(before, token)) in rarities:
            for end in (before, token):
                found[end] = max(found.get(end, 0.0), rarities[both_of])
    return sorted(found, key=lambda token: -found[token])


def _known(glances: dict[str, Glance], event_id: str) -> list[Glance]:
    return [glances[event_id]] if event_id in glances else []


def _other_end(link: Link, event_id: str) -> str:
    return link.target if link.source == event_id else link.source
