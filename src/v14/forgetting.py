"""Which events of a namespace are to be forgotten: by id, chat, time, request, or all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from v14.errors import SelectionError
from v14.memory import Memory
from v14.types import Event

Deed = Literal["recalled", "written", "both"]
"""What a request did with the events that are selected through it."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Events that fulfil everything given here.

    ids: of events. chat_id: of their chat. since, until: Unix seconds of `Event.said_at`, in [since, until). request:
    the id of a request that recalled or wrote them, as `deed` says. everything: all of them. alike: with `ids`, also
    the events that say the same elsewhere, in the same words; who forgets a fact means the fact.
    """

    ids: tuple[str, ...] = ()
    chat_id: str = ""
    since: float | None = None
    until: float | None = None
    request: str = ""
    deed: Deed = "both"
    everything: bool = False
    alike: bool = True

    def __post_init__(self) -> None:
        """Selecting nothing in particular is a mistake, not a wish to forget everything."""
        narrow = bool(self.ids or self.chat_id or self.request) or self.since is not None or self.until is not None
        if narrow == self.everything:
            raise SelectionError(
                "say what to forget: ids, chat_id, since, until or request, or everything = true and none of these"
            )

    def holds(self, chat_id: str, said_at: float) -> bool:
        """Whether an event of a chat, said then, is in the chat and the time that are selected."""
        return (
            (not self.chat_id or chat_id == self.chat_id)
            and (self.since is None or said_at >= self.since)
            and (self.until is None or said_at < self.until)
        )

    @property
    def kind(self) -> str:
        """What was said to select by, without its values."""
        said = {
            "event": bool(self.ids),
            "chat": bool(self.chat_id),
            "between": self.since is not None or self.until is not None,
            "request": bool(self.request),
            "namespace": self.everything,
        }
        return "+".join(name for name, given in said.items() if given)


def select(memory: Memory, namespace: str, selection: Selection) -> list[Event]:
    """The events of a namespace that are selected. Raises `SelectionError` for a request that is not known."""
    events: Sequence[Event] = memory.store.events(namespace)
    if selection.ids:
        events = _named(events, selection)
    if selection.request:
        entry = memory.journal.entry(selection.request, namespace)
        if entry is None:
            raise SelectionError(
                f"no request {selection.request!r} of this namespace is known since the server started; name events"
            )
        wanted = set(entry.of(namespace, recalled=selection.deed != "written", written=selection.deed != "recalled"))
        events = [event for event in events if event.id in wanted]
    return [event for event in events if selection.holds(event.chat_id, event.said_at)]


def _named(events: Sequence[Event], selection: Selection) -> list[Event]:
    named = [event for event in events if event.id in set(selection.ids)]
    if not selection.alike:
        return named
    bodies = {event.body for event in named}
    return [event for event in events if event.body in bodies]
