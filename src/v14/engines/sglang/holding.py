"""Which namespaces may hold something, as the HTTP process knows it: what is empty needs no probe.

Everything that is written passes here, so a name that is not known is of an empty namespace, as long as none had to be
given up. Names are bounded, because anybody may make one: once there are too many, an unknown name is probed.
"""

from collections import OrderedDict
from collections.abc import Container, Iterable

MAX_NAMES = 100_000


class Holding:
    """A set of names that errs on one side: it may say yes of an empty namespace, never no of one that holds events."""

    def __init__(self, names: Iterable[str] | None, max_names: int = MAX_NAMES, elsewhere: Container[str] = ()) -> None:
        """`names` hold events already; None where that cannot be known, and then every namespace may.

        `elsewhere` are those that other servers write to, as far as they are heard of.
        """
        self._elsewhere = elsewhere
        self._names: OrderedDict[str, None] = OrderedDict()
        self._max_names = max_names
        self._is_complete = names is not None
        for name in names or ():
            self.add(name)

    def add(self, name: str) -> None:
        """A namespace is written to."""
        self._names[name] = None
        self._names.move_to_end(name)
        if len(self._names) > self._max_names:
            self._names.popitem(last=False)
            self._is_complete = False

    def discard(self, name: str) -> None:
        """All of a namespace was forgotten."""
        self._names.pop(name, None)

    def __contains__(self, name: str) -> bool:
        """Whether a namespace may hold something."""
        return not self._is_complete or name in self._names or name in self._elsewhere
