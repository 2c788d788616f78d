"""The embedded store by size: `python -m benchmarks.store [--events 1000000] [--home DIR] [--kept DIR]`.

Two parts. *Namespaces*: events with small traces are put, committed, listed and read in 1, 100 and 10,000 namespaces.
*Events*: a catalog of that many rows, made in bulk, 16 to a segment file as a large model's would be; then opening,
counting, finding, and forgetting events that were put beside them. With `--kept` this store is made there unless it is
there already, and stays. Times are of one process on whatever disk holds the files: seconds that passed, processor
seconds of the process, and its memory; the machine's load is printed with every part.
"""

import argparse
import os
import random
import resource
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import torch

from v14.store.catalog import Catalog
from v14.store.directory import LOOK_PAGES, DirectoryStore
from v14.store.layout import Layout, segment_name
from v14.types import Event, Trace

WEIGHTS = "sha256:" + "5" * 64
EVENTS_PER_SEGMENT = 16
NUM_TOKENS, NUM_LAYERS = 64, 30
CHUNK = 20_000
"""Rows of one transaction of the bulk: SQLite gets slow in long logs."""
NUM_OPENINGS, NUM_COLD = 5, 2


@contextmanager
def timed(what: str, num: int = 0) -> Iterator[None]:
    """Print how long the block took, for `num` events."""
    started, used = time.perf_counter(), time.process_time()
    yield
    seconds, used = time.perf_counter() - started, time.process_time() - used
    rate = f", {num / seconds:,.0f} events/s, {num / used:,.0f} a processor second" if num else ""
    print(f"  {what}: {seconds:.3f} s, processor {used:.3f} s{rate}, {rss_mib():.0f} MiB", flush=True)


def load() -> str:
    """The machine's load, to be said with every figure."""
    return "load {:.1f} {:.1f} {:.1f}".format(*os.getloadavg())


def rss_mib() -> float:
    """Resident memory of this process now, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def event_of(number: int, namespace: str, num_tokens: int) -> Event:
    """An event that a number makes."""
    rng = random.Random(number)
    tokens = tuple(rng.randrange(150_000) for _ in range(num_tokens))
    return Event(
        namespace=namespace, chat_id=f"chat-{number // 8}", role="user", said_at=float(number), token_ids=tokens
    )


def namespaces(home: Path, num_namespaces: int, num_events: int) -> None:
    """Write and read `num_events` events of 32 tokens, `[4, 32, 2, 16]` bf16, spread over namespaces."""
    print(f"{num_events:,} events in {num_namespaces:,} namespaces ({load()})", flush=True)
    trace = Trace(keys=torch.zeros(4, 32, 2, 16, dtype=torch.bfloat16), values=torch.ones(4, 32, 2, 16).bfloat16())
    events = [event_of(number, f"n{number % num_namespaces}", 32) for number in range(num_events)]
    with closing(DirectoryStore.open(home, WEIGHTS)) as store:
        with timed("put and commit", num_events):
            for start in range(0, num_events, 16):
                store.put([(event, trace) for event in events[start : start + 16]])
            assert store.flush()
        with timed("read traces, at random", 2000):
            for event in random.Random(0).choices(events, k=2000):
                store.trace(event.namespace, event.id)
        with timed("list 100 namespaces"):
            for number in range(100):
                store.events(f"n{number % num_namespaces}")
        with timed("counts by namespace"):
            assert len(store.namespaces()) == num_namespaces
    with timed("open"):
        DirectoryStore.open(home, WEIGHTS).close()


def fill(home: Path, num_events: int) -> None:
    """Rows and empty segment files, in bulk: what opening looks at, without traces. Ids are random, as hashes are."""
    layout = Layout.of(home, WEIGHTS)
    layout.make()
    statement = (
        "WITH RECURSIVE n (i) AS (VALUES (?5) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?6) INSERT INTO events "
        "(namespace, id, parent, chat_id, role, said_at, token_ids, num_tokens, closing_len, segment, dtype, shape, "
        "digests, stored_at, recalled_at, corrupt) SELECT printf('n%03d', i * 1000 / ?1), "
        "'sha256:' || lower(hex(randomblob(32))), 'sha256:' || lower(hex(randomblob(32))), 'chat-' || (i / 8), 'user', "
        "i, randomblob(8 * ?2), ?2, 0, printf('%010d.safetensors', 1 + i / ?4), 'bfloat16', "
        "printf('[%d, %d, 1, 1]', ?3, ?2), randomblob(16 * ?3), i, 0, 0 FROM n"
    )
    Catalog(layout.catalog, WEIGHTS).close()
    with closing(sqlite3.connect(layout.catalog, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -200000")
        connection.execute("PRAGMA secure_delete = ON")
        for start in range(0, num_events, CHUNK):
            sizes = num_events, NUM_TOKENS, NUM_LAYERS, EVENTS_PER_SEGMENT
            connection.execute(statement, (*sizes, start, min(start + CHUNK, num_events)))
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for number in range(-(-num_events // EVENTS_PER_SEGMENT)):
        layout.segment(segment_name(1 + number)).write_bytes(b"")


def out_of_cache(path: Path) -> None:
    """Have the system read a file from the disk the next time."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def many(home: Path, num_events: int) -> None:
    """Opening and forgetting with a catalog of `num_events` rows."""
    num_segments = -(-num_events // EVENTS_PER_SEGMENT)
    print(f"{num_events:,} events of {NUM_TOKENS} tokens in {num_segments:,} segments ({load()})", flush=True)
    catalog = Layout.of(home, WEIGHTS).catalog
    if not catalog.exists():
        with timed("made in bulk", num_events):
            fill(home, num_events)
    size = catalog.stat().st_size
    print(f"  catalog: {size / 2**20:,.0f} MiB, {size / num_events:,.0f} bytes an event", flush=True)
    for number in range(NUM_OPENINGS):
        print(f"  ({load()})")
        if number < NUM_COLD:
            out_of_cache(catalog)
        with timed("open" + ", the catalog out of the page cache" * (number < NUM_COLD)):
            store = DirectoryStore.open(home, WEIGHTS, tend_s=3600)
        with closing(store):
            with timed("look for files that no row names, in the background"):
                store._writer.run(lambda: None)
            with timed("counts by namespace"):
                store.namespaces()
            with timed("list one namespace's ids"):
                ids = store.select("n001")
            with timed("look for 1,000 events"):
                assert len(store.has("n001", ids[:1000])) == len(ids[:1000])
    told = list(traced(random.randrange(1 << 40), "n002", 160))
    with closing(DirectoryStore.open(home, WEIGHTS, tend_s=3600)) as store:
        for when in ("right after opening", "once the file was looked at"):
            print(f"  ({load()})")
            store.put(told)
            with timed("put and commit", len(told)):
                assert store.flush()
            forget(store, told, when)
            with timed("look at the whole file"):
                while store._embedded.look(LOOK_PAGES):
                    pass


def traced(seed: int, namespace: str, num: int) -> Iterator[tuple[Event, Trace]]:
    """Events with traces of 64 tokens, `[30, 64, 1, 64]` bf16: 480 KiB each."""
    for number in range(seed, seed + num):
        keys, values = (torch.randn(30, NUM_TOKENS, 1, 64).bfloat16() for _ in range(2))
        yield event_of(number, namespace, NUM_TOKENS), Trace(keys=keys, values=values)


def forget(store: DirectoryStore, told: list[tuple[Event, Trace]], when: str) -> None:
    """Forget one event, one more, and then the rest together."""
    ids = [event.id for event, _ in told]
    for chosen in (ids[:1], ids[20:21], ids[1:20] + ids[21:]):
        with timed(f"forget {len(chosen)}, {when}"):
            assert store.forget("n002", chosen) == len(chosen)


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--home", type=Path, default=None)
    parser.add_argument("--kept", type=Path, default=None)
    parser.add_argument("--skip-namespaces", action="store_true")
    parser.add_argument("--skip-events", action="store_true")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="v14-bench-", dir=options.home))
    try:
        if not options.skip_namespaces:
            for number in (1, 100, 10_000):
                namespaces(home / f"namespaces-{number}", number, 20_000)
        if not options.skip_events:
            many(options.kept or home / "many", options.events)
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
