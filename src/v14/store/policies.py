"""What an operator decided about a namespace: how long its events live, and how much it may hold."""

import math
import sqlite3
from dataclasses import dataclass

POLICIES = """
CREATE TABLE policies (namespace TEXT NOT NULL PRIMARY KEY, ttl_s REAL, max_bytes INTEGER) WITHOUT ROWID
"""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """`ttl_s`: seconds after an event was last said at which it expires; `max_bytes`: of traces. None: no limit."""

    ttl_s: float | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        """Check both limits."""
        if self.ttl_s is not None and not 0 < self.ttl_s < math.inf:
            raise ValueError(
                f"ttl_s is above 0 and finite, not {self.ttl_s}; leave it out for events that never expire"
            )
        if self.max_bytes is not None and self.max_bytes < 0:
            raise ValueError(f"max_bytes is not negative, {self.max_bytes} is; leave it out for no bound")


def read_policies(reader: sqlite3.Connection) -> dict[str, Policy]:
    """Every policy by namespace."""
    rows = reader.execute("SELECT namespace, ttl_s, max_bytes FROM policies ORDER BY namespace")
    return {namespace: Policy(ttl_s=ttl_s, max_bytes=max_bytes) for namespace, ttl_s, max_bytes in rows}


def write_policy(writer: sqlite3.Connection, namespace: str, policy: Policy) -> None:
    """Replace the policy of a namespace; one without limits removes it."""
    writer.execute("DELETE FROM policies WHERE namespace = ?", (namespace,))
    if policy != Policy():
        writer.execute("INSERT INTO policies VALUES (?, ?, ?)", (namespace, policy.ttl_s, policy.max_bytes))
