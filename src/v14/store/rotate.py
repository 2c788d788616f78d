"""Another master key for an encrypted store: while no server has it open, one transaction whatever its size."""

import os
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from v14.errors import StoreError, StoreKeyError
from v14.home import Home, SharedHome
from v14.store.catalog import Catalog
from v14.store.layout import HOME_VARIABLE, Layout
from v14.store.opening import missing_extra
from v14.store.seal import MasterKey
from v14.store.vault import StoreKey, Vault


def rotate(home: Home, weights_id: str, old: MasterKey, new: MasterKey) -> int:
    """Wrap the store keys of one store with `new` and add one for what is written from now on; how many there are.

    Interrupted at any instant, the store opens with exactly one of the two. Raises `StoreKeyError` where `old` is not
    its key or it has none, and `StoreError` where it is in use or cannot be read.
    """
    if not isinstance(home, SharedHome):
        return _rotate_directory(home, weights_id, old, new)
    try:
        from v14.store.shared.rotate import rotate as rotate_shared
    except ModuleNotFoundError as error:
        raise missing_extra(home, error) from error
    return rotate_shared(home, weights_id, lambda was: rewrapped(weights_id, was, old, new))


def rewrapped(weights_id: str, was: Iterable[StoreKey], old: MasterKey, new: MasterKey) -> list[StoreKey]:
    """The store keys `was`, which `old` wraps, and one more, wrapped by `new`. Raises `StoreKeyError`."""
    vault = Vault.open(weights_id, was, old)
    if vault is None:
        raise StoreKeyError(f"the store of {weights_id} is not encrypted; serve it with a key to begin")
    return vault.rotated().stored(new)


def _rotate_directory(home: Path, weights_id: str, old: MasterKey, new: MasterKey) -> int:
    layout = Layout.of(home, weights_id)
    if not layout.catalog.is_file():
        raise StoreError(f"there is no store of {weights_id} in {home}; set {HOME_VARIABLE} to where it lies")
    descriptor = layout.acquire()
    try:
        with closing(Catalog(layout.catalog, weights_id)) as catalog:
            was = catalog.keys()
            keys = rewrapped(weights_id, was, old, new)
            catalog.set_keys(keys, was=was)
            return len(keys)
    finally:
        os.close(descriptor)
