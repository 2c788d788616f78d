"""A store as a system finds it: all chats of a woven world told to one model, and which events hold what was told."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.recall.chats import Case, Chat
from benchmarks.recall.reading import Reader
from v14.memory import Session
from v14.types import Event


@dataclass(frozen=True, kw_only=True, eq=False)
class Told:
    """Events by id in the order they were said, and what each says."""

    session: Session
    events: dict[str, Event]
    texts: dict[str, str]
    of_chat: dict[float, list[str]]

    def needed(self, case: Case) -> list[set[str]]:
        """For each statement that the answer takes, the events that hold it: any of them will do.

        A statement that was cut in two is held by the event with the value.
        """
        own = {
            event_id: self.texts[event_id].casefold() for chat in case.chats for event_id in self.of_chat[chat.said_at]
        }
        return [
            holding(own, [statement.casefold()]) or holding(own, [value.casefold() for value in case.accepted])
            for statement in case.needed
        ]


def holding(texts: dict[str, str], wanted: Sequence[str]) -> set[str]:
    """Ids of the texts that hold one of `wanted`."""
    return {event_id for event_id, text in texts.items() if any(part in text for part in wanted)}


def tell(reader: Reader, chats: Sequence[Chat], namespace: str) -> Told:
    """Read chats, in the order they were said, into a namespace."""
    session = reader.memory.session(namespace)
    for traced in reader.read(chats, session):
        session.keep(traced)
    events = {event.id: event for event in reader.memory.store.events(namespace)}
    of_chat: defaultdict[float, list[str]] = defaultdict(list)
    for event in events.values():
        of_chat[event.said_at].append(event.id)
    texts = {event_id: reader.said(event) for event_id, event in events.items()}
    return Told(session=session, events=events, texts=texts, of_chat=dict(of_chat))
