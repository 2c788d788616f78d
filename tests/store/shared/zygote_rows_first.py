"""As `tests.store.shared.zygote`, for a store that commits rows before their objects: what a check must object to."""

from typing import Any

import obstore

from tests.store.shared.zygote import shared
from tests.store.zygote import main
from v14.store.pending import Batch
from v14.store.shared.store import SharedStore


def rows_first(line: str) -> SharedStore:
    store = shared(line)
    commit, put = store._commit, obstore.put

    def late(batch: Batch) -> None:
        puts: list[tuple[Any, ...]] = []
        obstore.put = lambda *args: puts.append(args)
        try:
            commit(batch)
        finally:
            obstore.put = put
        for args in puts:
            put(*args)

    store._writer._commit = late
    return store


if __name__ == "__main__":
    main(rows_first)
