"""What must be true of a store whose writer was killed, whenever that was."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from tests.store.making import WEIGHTS, again, made, same_trace
from v14.errors import StoreError
from v14.store.catalog import Catalog
from v14.store.directory import DirectoryStore
from v14.store.layout import Layout


def leftovers(home: Path) -> list[str]:
    """Files in the segment directory that no catalog row names."""
    layout = Layout.of(home, WEIGHTS)
    if not layout.segments.is_dir():
        return []
    named = set()
    if layout.catalog.exists():
        with closing(Catalog(layout.catalog, WEIGHTS)) as catalog:
            named = catalog.segments()
    return sorted(path.name for path in layout.segments.iterdir() if path.name not in named)


def wrongs(home: Path, acknowledged: Iterable[tuple[str, int, bool]] = ()) -> list[str]:
    """Open the store as the next start of a server would, and say everything that is wrong with it.

    `acknowledged` are (namespace, number, large) of `made` events that the writer had been told were committed.
    """
    try:
        store = DirectoryStore.open(home, WEIGHTS)
    except StoreError as error:
        return [f"does not open: {error}"]
    found = []
    with closing(store):
        listed = [event for namespace in store.namespaces() for event in store.events(namespace)]
        for event in listed:
            expected, trace = again(event)
            try:
                if event != expected:
                    found.append(f"{event} is not what was put")
                if not same_trace(store.trace(event.namespace, event.id), trace):
                    found.append(f"the trace of {event.id} is not what was put")
            except (StoreError, KeyError) as error:
                found.append(f"listed, not whole: {error}")
        present = {(event.namespace, event.id) for event in listed}
        for namespace, number, large in acknowledged:
            event, _ = made(number, namespace, large=large)
            if (namespace, event.id) not in present:
                found.append(f"acknowledged, not there: {namespace} {number}")
        stats = store.stats()
        if stats.num_corrupt or stats.num_events != len(listed):
            found.append(f"{len(listed)} events listed, {stats}")
    return found + [f"left over: {name}" for name in leftovers(home)]
