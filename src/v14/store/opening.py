"""Opening the store that a home names: embedded for a directory, shared for a URL."""

from v14.errors import StoreError
from v14.home import Home, SharedHome
from v14.store.contract import Store
from v14.store.directory import DirectoryStore


def open_store(home: Home, weights_id: str) -> Store:
    """The store of `weights_id` at `home`. Raises `StoreError`."""
    if not isinstance(home, SharedHome):
        return DirectoryStore.open(home, weights_id)
    try:
        from v14.store.shared.store import SharedStore
    except ModuleNotFoundError as error:
        raise missing_extra(home, error) from error
    return SharedStore.open(home, weights_id)


def missing_extra(home: SharedHome, error: ModuleNotFoundError) -> StoreError:
    """The error for a shared home without the packages that it needs."""
    return StoreError(
        f"the shared store {home} needs the package {error.name}, which is not installed: "
        "pip install 'sglang-v14[shared]'"
    )
