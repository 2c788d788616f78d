"""Opening the store that a home names: embedded for a directory, shared for a URL."""

from v14.errors import StoreError
from v14.home import Home, SharedHome
from v14.store.core import CoreStore
from v14.store.directory import DirectoryStore
from v14.store.keeping import KEEP_EVERYTHING, Keeping
from v14.store.seal import MasterKey


def open_store(
    home: Home, weights_id: str, *, keeping: Keeping = KEEP_EVERYTHING, master: MasterKey | None = None
) -> CoreStore:
    """The store of `weights_id` at `home`. Raises `StoreError`, and `StoreKeyError` for one encrypted with another key
    than `master`."""
    if not isinstance(home, SharedHome):
        return DirectoryStore.open(home, weights_id, keeping=keeping, master=master)
    try:
        from v14.store.shared.store import SharedStore
    except ModuleNotFoundError as error:
        raise missing_extra(home, error) from error
    return SharedStore.open(home, weights_id, keeping=keeping, master=master)


def missing_extra(home: SharedHome, error: ModuleNotFoundError) -> StoreError:
    """The error for a shared home without the packages that it needs."""
    return StoreError(
        f"the shared store {home} needs the package {error.name}, which is not installed: "
        "pip install 'sglang-v14[shared]'"
    )
