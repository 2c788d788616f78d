"""Looking into whatever stores a home has, without taking part: files of a directory, or schemas of a database."""

from collections.abc import Iterator
from contextlib import closing

from v14.home import Home, SharedHome
from v14.store import view
from v14.store.audit import Record
from v14.store.contract import Store
from v14.store.opening import missing_extra, open_store
from v14.store.policies import Policy
from v14.store.seal import MasterKey
from v14.store.view import EventView, StoreView


def views(home: Home) -> list[StoreView]:
    """Every store at `home`. Raises `StoreError`."""
    if not isinstance(home, SharedHome):
        return view.views(home)
    try:
        from v14.store.shared import view as shared
    except ModuleNotFoundError as error:
        raise missing_extra(home, error) from error
    return shared.views(home)


def events(home: Home, namespace: str | None = None, master: MasterKey | None = None) -> list[EventView]:
    """The events of every store at `home`, of one namespace or all, by `said_at`.

    Raises `StoreError`, and `StoreKeyError` for a store that is encrypted with another key than `master`.
    """
    if not isinstance(home, SharedHome):
        return view.events(home, namespace, master)
    try:
        from v14.store.shared import view as shared
    except ModuleNotFoundError as error:
        raise missing_extra(home, error) from error
    return shared.events(home, namespace, master)


def weights_ids(home: Home) -> list[str]:
    """The weights that there are stores of. Raises `StoreError`."""
    return [found.weights_id for found in views(home)]


def policies(home: Home) -> dict[str, dict[str, Policy]]:
    """Policies by namespace, by weights id. Raises `StoreError`."""
    if not isinstance(home, SharedHome):
        return view.policies(home)
    return {weights_id: dict(store.policies()) for weights_id, store in _opened(home)}


def audits(home: Home) -> dict[str, list[Record]]:
    """The audit record, oldest first, by weights id. Raises `StoreError`."""
    if not isinstance(home, SharedHome):
        return view.audits(home)
    return {weights_id: list(store.audit()) for weights_id, store in _opened(home)}


def _opened(home: SharedHome) -> Iterator[tuple[str, Store]]:
    """A shared store is opened beside whoever else has it open; nothing of this needs its key."""
    for weights_id in weights_ids(home):
        with closing(open_store(home, weights_id)) as store:
            yield weights_id, store
