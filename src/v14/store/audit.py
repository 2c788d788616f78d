"""The audit record: that something was forgotten or imported, when, by whose request and how much. Never what.

An event's id is a hash of its text, and a short text can be guessed from its hash: a record holds no ids, and of the
namespace only a digest.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields

AUDIT = """
CREATE TABLE audit (
    at REAL NOT NULL, action TEXT NOT NULL, selection TEXT NOT NULL, namespace_digest TEXT NOT NULL,
    num_events INTEGER NOT NULL, num_tokens INTEGER NOT NULL, requested_by TEXT NOT NULL,
    finished_at REAL NOT NULL
)
"""


def namespace_digest(namespace: str) -> str:
    """Tells records of two namespaces apart, and lets who knows a namespace's name find its records."""
    return hashlib.sha256(b"v14 namespace\0" + namespace.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One line of the audit. Fields are the columns of the table `audit`, in order.

    at: Unix seconds. action: forget, expire, evict or import. selection: the kind of selection that was asked for
    (event, chat, between, namespace, ttl, file …), without its value. requested_by: what the caller said of itself,
    such as a request id. finished_at: when the last copy was gone from the files, too; 0.0 is not yet.
    """

    at: float
    action: str
    selection: str
    namespace_digest: str
    num_events: int
    num_tokens: int
    requested_by: str = ""
    finished_at: float = 0.0


def write_record(writer: sqlite3.Connection, record: Record) -> None:
    """Append a record."""
    writer.execute(f"INSERT INTO audit VALUES ({', '.join('?' * len(fields(Record)))})", astuple(record))


def read_records(reader: sqlite3.Connection) -> Iterator[Record]:
    """All records, oldest first."""
    names = [field.name for field in fields(Record)]
    for values in reader.execute(f"SELECT {', '.join(names)} FROM audit ORDER BY rowid"):
        yield Record(**dict(zip(names, values, strict=True)))
