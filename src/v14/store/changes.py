"""What changed in a namespace since it was last looked at, so that an index in memory can follow the store."""

from collections.abc import Sequence
from dataclasses import dataclass

from v14.store.row import Row
from v14.types import Event


@dataclass(frozen=True, kw_only=True)
class Changed:
    """As the catalog says it: `rows` written since, and all `held` ids where some were taken out since, else None.

    `number` is what to ask from the next time.
    """

    number: int
    rows: Sequence[Row] = ()
    held: frozenset[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Changes:
    """As the store says it: `events` put since, by whomever, and all `held` ids where some were taken out, else None.

    Events that the asker has already may be among them. `number` is what to ask from the next time.
    """

    number: int
    events: Sequence[Event] = ()
    held: frozenset[str] | None = None
