"""Events past the time that their namespace's policy gives them: not there for anyone, erased in the background.

An event expires `ttl_s` after it was last said. Saying it again before that, also where this still awaits its commit,
gives it the time anew.
"""

import math
from collections.abc import Callable, Collection, Mapping

from v14.store.foundation import CatalogContract
from v14.store.pending import Key, Renewal
from v14.store.policies import Policy


class Expiry:
    """Which events of a store are over. Safe for several threads."""

    def __init__(self, catalog: CatalogContract, clock: Callable[[], float]) -> None:
        """Raises `StoreError`."""
        self._catalog, self._clock = catalog, clock
        self._policies: Mapping[str, Policy] = {}
        self.refresh()

    @property
    def policies(self) -> Mapping[str, Policy]:
        """The policies that are in force."""
        return self._policies

    def refresh(self) -> None:
        """Read the policies again. Raises `StoreError`."""
        self._policies = dict(self._catalog.policies())

    def is_over(self, namespace: str, said_at: float, renewal: Renewal | None = None) -> bool:
        """Whether an event of `namespace` last said then, or renewed, is over."""
        return renewed(said_at, renewal) <= self._end(namespace)

    def over(self, keys: Collection[Key], renewals: Mapping[Key, Renewal]) -> set[Key]:
        """Those of `keys` whose rows are over."""
        limited = {key for key in keys if self._end(key[0]) > -math.inf}
        rows = [row for key in limited if (row := self._catalog.row(key)) is not None]
        return {row.key for row in rows if self.is_over(row.namespace, row.said_at, renewals.get(row.key))}

    def over_in(self, namespace: str, renewals: Mapping[Key, Renewal]) -> set[str]:
        """Ids of a namespace's rows that are over, those set aside included. Raises `StoreError`."""
        end = self._end(namespace)
        if end == -math.inf:
            return set()
        rows = self._catalog.select(namespace, math.nextafter(end, math.inf))
        return {i for i, said_at in rows.items() if self.is_over(namespace, said_at, renewals.get((namespace, i)))}

    def all_over(self, renewals: Mapping[Key, Renewal]) -> set[Key]:
        """Keys of all rows that are over, those set aside included. Raises `StoreError`."""
        return {(namespace, i) for namespace in list(self._policies) for i in self.over_in(namespace, renewals)}

    def _end(self, namespace: str) -> float:
        """What was last said then, or earlier, is over."""
        policy = self._policies.get(namespace)
        return -math.inf if policy is None or policy.ttl_s is None else self._clock() - policy.ttl_s


def renewed(said_at: float, renewal: Renewal | None) -> float:
    """The time that an event was last said, renewed or not."""
    return said_at if renewal is None else max(said_at, renewal.said_at)
