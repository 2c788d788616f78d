"""The order of a span: what tells of the same stands in the order in which it was said, the strongest last.

A wrong event behind the right one harms small models most (LOG.md, "the order of a span"), so the strongest vote stands
directly in front of the question. But among statements about the same thing the latest is the one that holds, whichever
has the strongest vote: those stand together, in time order.
"""

from collections.abc import Callable, Sequence

from v14.types import Event

SAME = 0.6
"""Sameness (`Wording.sameness`) from which on two events count as telling of the same."""


def span_order(
    strongest_first: Sequence[Event], order: Callable[[str], int], sameness: Callable[[str, str], float]
) -> list[Event]:
    """Groups of one chat or one subject, each in the order it was said, the group with the strongest vote last.

    `order` says which of two events said at the same time came first.
    """
    groups: list[list[Event]] = []
    for event in strongest_first:
        for group in groups:
            one_chat = any(event.chat_id == other.chat_id for other in group)
            if one_chat or sameness(group[0].id, event.id) >= SAME:
                group.append(event)
                break
        else:
            groups.append([event])
    for group in groups:
        group.sort(key=lambda event: (event.said_at, order(event.id)))
    return [event for group in reversed(groups) for event in group]
