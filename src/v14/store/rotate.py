"""Another master key for an encrypted store: offline, and one transaction whatever the size of the store."""

import os
from contextlib import closing
from pathlib import Path

from v14.errors import StoreError, StoreKeyError
from v14.store.catalog import Catalog
from v14.store.layout import HOME_VARIABLE, Layout
from v14.store.seal import MasterKey
from v14.store.vault import Vault


def rotate(home: Path, weights_id: str, old: MasterKey, new: MasterKey) -> int:
    """Wrap the store keys of one store with `new` and add one for what is written from now on; how many there are.

    Interrupted at any instant, the store opens with exactly one of the two. Raises `StoreKeyError` where `old` is not
    its key or it has none, and `StoreError` where it is in use or cannot be read.
    """
    layout = Layout.of(home, weights_id)
    if not layout.catalog.is_file():
        raise StoreError(f"there is no store of {weights_id} in {home}; set {HOME_VARIABLE} to where it lies")
    descriptor = layout.acquire()
    try:
        with closing(Catalog(layout.catalog, weights_id)) as catalog:
            was = catalog.keys()
            vault = Vault.open(weights_id, was, old)
            if vault is None:
                raise StoreKeyError(f"the store of {weights_id} is not encrypted; serve it with a key to begin")
            keys = vault.rotated().stored(new)
            catalog.set_keys(keys, was=was)
            return len(keys)
    finally:
        os.close(descriptor)
