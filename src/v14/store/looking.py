"""Looking into whatever stores a home has, without taking part: files of a directory, or schemas of a database."""

from v14.home import Home, SharedHome
from v14.store import view
from v14.store.opening import missing_extra
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
