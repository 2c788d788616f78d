"""What a memory holds, in pages of plain values, with token ids for text: who has the tokenizer makes words of them.

Every call looks at one namespace, and costs no more than a glance at its events (`Store.glances`) and whole events of
one page: it runs where requests are served.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from v14.forgetting import Selection, select
from v14.inspector.words import words_of
from v14.memory import Memory
from v14.store.glance import Glance
from v14.types import Event

Told = dict[str, Any]

NUM_SAMPLES = 5
"""Events shown of what would be forgotten."""


def use(memory: Memory, namespace: str) -> Told:
    """How much a namespace holds: events, chats, tokens, bytes, when it was last written to and recalled from."""
    glances = memory.store.glances(namespace)
    return {
        "namespace": namespace,
        "num_events": len(glances),
        "num_chats": len({glance.chat_id for glance in glances}),
        **_sums(glances),
    }


def events(
    memory: Memory,
    namespace: str,
    selection: Selection,
    start: int,
    limit: int,
    *,
    newest: bool = False,
    role: str = "",
) -> Told:
    """A page of the selected events, oldest or newest first. What is set aside meanwhile is missing in its page."""
    found = _selected(memory, namespace, selection)
    if role:
        found = [glance for glance in found if glance.role == role]
    if newest:
        found.reverse()
    return {"num_events": len(found), "events": shown(memory, namespace, found[start : start + limit])}


def chats(memory: Memory, namespace: str, start: int, limit: int) -> Told:
    """A page of a namespace's chats, that first in which something was said last; `first` is how a chat begins."""
    by_chat: dict[str, list[Glance]] = {}
    for glance in memory.store.glances(namespace):
        by_chat.setdefault(glance.chat_id, []).append(glance)
    newest = sorted(by_chat.items(), key=lambda item: -item[1][-1].said_at)
    return {
        "num_chats": len(newest),
        "chats": [
            {
                "chat_id": chat_id,
                "num_events": len(glances),
                "since": glances[0].said_at,
                **_sums(glances),
                "first": next(iter(shown(memory, namespace, glances[:1])), None),
            }
            for chat_id, glances in newest[start : start + limit]
        ],
    }


def losses(memory: Memory, namespace: str, selection: Selection) -> Told:
    """What would be lost if a selection were forgotten."""
    found = _selected(memory, namespace, selection)
    return {
        "namespace": namespace,
        "num_events": len(found),
        "num_chats": len({glance.chat_id for glance in found}),
        "since": found[0].said_at if found else None,
        **_sums(found),
        "events": shown(memory, namespace, found[-NUM_SAMPLES:][::-1]),
    }


def shown(memory: Memory, namespace: str, glances: Iterable[Glance]) -> list[Told]:
    """Whole events of a few glances; those that went meanwhile are left out."""
    found = []
    for glance in glances:
        with suppress(KeyError):
            [event] = memory.store.get(namespace, [glance.id])
            found.append(told(event, memory) | _beside(glance))
    return found


def told(event: Event, memory: Memory) -> Told:
    """An event in plain values."""
    return {
        **asdict(event),
        "token_ids": list(event.token_ids),
        "num_tokens": event.num_tokens,
        "word_ids": words_of(event, memory.profile.turns),
    }


def _beside(glance: Glance) -> Told:
    return {"recalled_at": glance.recalled_at or None, "num_bytes": glance.num_bytes, "form": glance.form}


def _sums(glances: Sequence[Glance]) -> Mapping[str, Any]:
    return {
        "num_tokens": sum(glance.num_tokens for glance in glances),
        "num_bytes": sum(glance.num_bytes for glance in glances),
        "said_at": max((glance.said_at for glance in glances), default=None),
        "recalled_at": max((glance.recalled_at for glance in glances), default=0.0) or None,
    }


def _selected(memory: Memory, namespace: str, selection: Selection) -> list[Glance]:
    """Glances at what is selected, oldest first. Raises `SelectionError` for a request that is not known."""
    glances = memory.store.glances(namespace)
    if selection.ids or selection.request:
        wanted = {event.id for event in select(memory, namespace, selection)}
        return [glance for glance in glances if glance.id in wanted]
    return [glance for glance in glances if selection.holds(glance.chat_id, glance.said_at)]
