"""Links between events of a namespace: their table in the catalog, and those that await their commit."""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from v14.types import Link, LinkKind

LinkKey = tuple[str, str, str, str]
"""(namespace, source, target, kind)."""

LINKS = """
CREATE TABLE links (
    namespace TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL, kind TEXT NOT NULL, weight REAL NOT NULL,
    PRIMARY KEY (namespace, source, target, kind)
) WITHOUT ROWID;
CREATE INDEX links_target ON links (namespace, target)
"""


def link_key(namespace: str, link: Link) -> LinkKey:
    """What makes two links the same one; the weight does not."""
    return namespace, link.source, link.target, link.kind


def link_of(key: LinkKey, weight: float) -> Link:
    """The inverse of `link_key`."""
    _, source, target, kind = key
    return Link(source=source, target=target, kind=cast(LinkKind, kind), weight=weight)


@dataclass(frozen=True, kw_only=True)
class LinkChange:
    """A link to be written: of this weight if it has a larger one not already, or of this weight whatever it had.

    `number` is that of the first call that asked. weight None removes the link; `afresh` is True where a removal came
    before the weight.
    """

    number: int
    weight: float | None
    afresh: bool = False

    def over(self, weight: float | None) -> float | None:
        """The weight that a link of `weight` (None: no link) has after the change."""
        return self.weight if self.afresh or self.weight is None or weight is None else max(self.weight, weight)


def change_link(earlier: LinkChange | None, number: int, weight: float | None) -> LinkChange:
    """A change that does what `earlier` does and then adds a link of `weight`, or removes it where that is None."""
    if earlier is not None:
        number = earlier.number
    if weight is None:
        return LinkChange(number=number, weight=None, afresh=True)
    if earlier is None:
        return LinkChange(number=number, weight=weight)
    return LinkChange(number=number, weight=max(weight, earlier.weight or 0.0), afresh=earlier.afresh)


def read_links(reader: sqlite3.Connection, namespace: str) -> dict[LinkKey, float]:
    """Weights of a namespace's links."""
    rows = reader.execute("SELECT source, target, kind, weight FROM links WHERE namespace = ?", (namespace,))
    return {(namespace, source, target, kind): weight for source, target, kind, weight in rows}


def write_links(writer: sqlite3.Connection, changes: Mapping[LinkKey, LinkChange]) -> None:
    """Make the changes. A link with an end that has no row is passed over."""
    remove = "DELETE FROM links WHERE namespace = ? AND source = ? AND target = ? AND kind = ?"
    known = "EXISTS (SELECT 1 FROM events WHERE namespace = ?1 AND id = {})"
    add = (
        f"INSERT INTO links SELECT ?1, ?2, ?3, ?4, ?5 WHERE {known.format('?2')} AND {known.format('?3')} "
        "ON CONFLICT DO UPDATE SET weight = max(weight, excluded.weight)"
    )
    writer.executemany(remove, (key for key, change in changes.items() if change.afresh))
    writer.executemany(add, ((*key, change.weight) for key, change in changes.items() if change.weight is not None))


def cut_links(writer: sqlite3.Connection, keys: Iterable[tuple[str, str]]) -> None:
    """Remove every link with an end among `keys`, (namespace, event id)."""
    for namespace, event_id in keys:
        writer.execute("DELETE FROM links WHERE namespace = ? AND source = ?", (namespace, event_id))
        writer.execute("DELETE FROM links WHERE namespace = ? AND target = ?", (namespace, event_id))
