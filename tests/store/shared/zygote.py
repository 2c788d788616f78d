"""As `tests.store.zygote`, for writers of a shared store: a line is SEED WEIGHTS URL."""

from tests.store.zygote import main
from v14.home import SharedHome
from v14.store.shared.store import SharedStore


def shared(line: str) -> SharedStore:
    weights_id, url = line.split()
    return SharedStore.open(SharedHome.parse(url), weights_id)


if __name__ == "__main__":
    main(shared)
