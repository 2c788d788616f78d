"""What can be forgotten at once: events by id, a chat, a time, a namespace. The store itself knows ids only."""

import math
from dataclasses import dataclass

from v14.store.contract import Store


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Events of one namespace: by `ids`, or those of `chat_id` (None: any) last said in [since, until), Unix seconds.

    Without any field it is the whole namespace. Also selects events that are set aside.
    """

    ids: tuple[str, ...] | None = None
    chat_id: str | None = None
    since: float = -math.inf
    until: float = math.inf

    def __post_init__(self) -> None:
        """Check that ids stand alone and that the times are an interval."""
        timed = self.since > -math.inf or self.until < math.inf
        if self.ids is not None and (self.chat_id is not None or timed):
            raise ValueError("events are selected by their ids, or by chat and time, not by both")
        if not self.since < self.until:
            raise ValueError(f"nothing is said in [{self.since}, {self.until}): the first time must be the earlier one")

    @property
    def kind(self) -> str:
        """The kind of selection, for the audit: event, chat, between or namespace."""
        if self.ids is not None:
            return "event"
        if self.since > -math.inf or self.until < math.inf:
            return "between" if self.chat_id is None else "chat-between"
        return "namespace" if self.chat_id is None else "chat"


def forget(store: Store, namespace: str, selection: Selection, *, requested_by: str = "") -> int:
    """Forget what is selected now, and say how many events that were. Raises as `Store.forget`.

    An event that is put while this runs is not selected.
    """
    ids = selection.ids
    if ids is None:
        ids = tuple(store.select(namespace, chat_id=selection.chat_id, since=selection.since, until=selection.until))
    return store.forget(namespace, ids, selection=selection.kind, requested_by=requested_by)
