"""Links between events of a namespace: their table in the catalog, and those that await their commit."""

import sqlite3
from collections.abc import Iterable, Mapping
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


def read_links(reader: sqlite3.Connection, namespace: str) -> dict[LinkKey, float]:
    """Weights of a namespace's links."""
    rows = reader.execute("SELECT source, target, kind, weight FROM links WHERE namespace = ?", (namespace,))
    return {(namespace, source, target, kind): weight for source, target, kind, weight in rows}


def write_links(writer: sqlite3.Connection, links: Mapping[LinkKey, float | None]) -> None:
    """Add links, the larger weight counts, and remove those of weight None.

    A link with an end that has no row is passed over.
    """
    known = "EXISTS (SELECT 1 FROM events WHERE namespace = ?1 AND id = {})"
    add = (
        f"INSERT INTO links SELECT ?1, ?2, ?3, ?4, ?5 WHERE {known.format('?2')} AND {known.format('?3')} "
        "ON CONFLICT DO UPDATE SET weight = max(weight, excluded.weight)"
    )
    remove = "DELETE FROM links WHERE namespace = ? AND source = ? AND target = ? AND kind = ?"
    writer.executemany(add, ((*key, weight) for key, weight in links.items() if weight is not None))
    writer.executemany(remove, (key for key, weight in links.items() if weight is None))


def cut_links(writer: sqlite3.Connection, keys: Iterable[tuple[str, str]]) -> None:
    """Remove every link with an end among `keys`, (namespace, event id)."""
    for namespace, event_id in keys:
        writer.execute("DELETE FROM links WHERE namespace = ? AND source = ?", (namespace, event_id))
        writer.execute("DELETE FROM links WHERE namespace = ? AND target = ?", (namespace, event_id))
