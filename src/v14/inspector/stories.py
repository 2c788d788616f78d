"""The last requests of a namespace, and the story of one: in plain values, token ids standing for text."""

from collections.abc import Sequence
from typing import Any

from v14.errors import SelectionError
from v14.explain import Record, in_words
from v14.inspector.look import Told, told
from v14.inspector.words import Decode, asked_in, words_of
from v14.memory import Memory
from v14.types import Event

MAX_ASKED = 64
"""Tokens of a question that a list shows."""


def requests(memory: Memory, namespace: str, start: int, limit: int) -> Told:
    """A page of the records of a namespace's requests, newest first."""
    records = memory.records.of(namespace)
    return {
        "num_requests": len(records),
        "requests": [_brief(record, memory) for record in records[start : start + limit]],
    }


def story(memory: Memory, namespace: str, request_id: str) -> Told:
    """The record of a request, with the events that were voted for as far as its own namespace holds them; of the cue's
    tokens, `said` are those that are no marks of the chat template.

    Raises `SelectionError`, alike for a request that is not known and for one of another namespace.
    """
    try:
        record = memory.records.find(request_id, namespace)
    except KeyError:
        raise SelectionError(
            f"no request {request_id!r} of the namespace {namespace!r} has a record: only the last plans are kept, and "
            "none is made where nothing is stored; name the namespace if it was of another"
        ) from None
    plain = record.to_json()
    turns = memory.profile.turns
    words = {event.id: words_of(event, turns) for event in record.plan.events}
    places = asked_in(record.token_ids, record.new_start, turns)
    said_at = frozenset(places)
    cue = [{**token, "said": place in said_at} for place, token in enumerate(plain["prompt"]["cue"], record.cue_start)]
    return {
        **plain,
        "prompt": {**plain["prompt"], "cue": cue},
        "asked_ids": [record.token_ids[place] for place in places],
        "recalled": [{**event, "word_ids": words[event["id"]]} for event in plain["recalled"]],
        "votes": [
            {**vote, "event": _held(memory, namespace, vote["event_id"], record.plan.events)} for vote in plain["votes"]
        ],
    }


def story_in_words(plain: Told, decode: Decode) -> Told:
    """A story with text for all its tokens."""
    spoken = in_words(plain, decode)
    return {
        **spoken,
        "asked": decode(spoken["asked_ids"]),
        "recalled": [said(event, decode) for event in spoken["recalled"]],
        "votes": [
            {**vote, "event": None if vote["event"] is None else said(vote["event"], decode)}
            for vote in spoken["votes"]
        ],
    }


def said(event: Told, decode: Decode) -> Told:
    """An event of plain values with its text, whole and (`words`) without the marks of the chat template."""
    return {**event, "text": decode(event["token_ids"]), "words": decode(event["word_ids"])}


def asked_ids(record: Record, memory: Memory) -> list[int]:
    """Token ids of what a request asked, cut for a list."""
    places = asked_in(record.token_ids, record.new_start, memory.profile.turns)
    return [record.token_ids[place] for place in places[:MAX_ASKED]]


def _brief(record: Record, memory: Memory) -> Told:
    plan, seconds = record.plan, dict(record.seconds)
    return {
        "id": record.request_id,
        "at": record.at,
        "asked_ids": asked_ids(record, memory),
        "num_prompt": len(record.token_ids),
        "num_recalled": len(plan.events),
        "best_vote": plan.votes[0].value if plan.votes else None,
        "floor": record.options.recall_floor,
        "num_written": next(iter(record.written), None),
        "first_token_ms": _ms(seconds.get("first_token")),
        "decode_ms": _ms(seconds.get("decode")),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 3)


def _held(memory: Memory, namespace: str, event_id: str, recalled: Sequence[Event]) -> dict[str, Any] | None:
    """The event of a vote. Of a shared namespace those that were recalled are known, and no others."""
    for event in recalled:
        if event.id == event_id:
            return told(event, memory)
    try:
        [event] = memory.store.get(namespace, [event_id])
    except KeyError:
        return None
    return told(event, memory)
