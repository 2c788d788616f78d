"""Writers of a shared store, four at a time, killed at any instant: nothing committed is lost, nothing torn is seen."""

import os
import random
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from tests.counts import counted
from tests.shared_servers import Postgres
from tests.store.contract.places import Shared
from tests.store.making import again, made, same_trace
from tests.store.test_kill import killed, zygote
from v14.errors import StoreError

KILLS = int(os.environ.get("KILLS", "1000"))
KILLS_PER_STORE = 100
WRITERS = 4

pytestmark = [pytest.mark.shared, pytest.mark.slow, pytest.mark.timeout(3600)]


class Follower:
    """A third server, which only reads: it follows by number, and reads every event that it hears of."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.numbers = {"home": 0, "work": 0}
        self.seen: set[tuple[str, str]] = set()

    def wrongs(self, acknowledged: Iterable[tuple[str, int, bool]]) -> list[str]:
        """What is wrong with the events that are new, and which acknowledged ones are not there."""
        found = []
        for namespace, number in self.numbers.items():
            changes = self.store.changes(namespace, number)
            self.numbers[namespace] = changes.number
            for event in changes.events:
                expected, trace = again(event)
                try:
                    if event != expected or not same_trace(self.store.trace(namespace, event.id), trace):
                        found.append(f"{event.id} is not what was put")
                except (StoreError, KeyError) as error:
                    found.append(f"listed, not whole: {error}")
                self.seen.add((namespace, event.id))
        for namespace, number, large in acknowledged:
            if (namespace, made(number, namespace, large=large)[0].id) not in self.seen:
                found.append(f"acknowledged, not there: {namespace} {number}")
        return found


def test_kills(servers: tuple[Postgres, int]) -> None:
    num_acknowledged = num_seen = num_leftovers = 0
    rngs = [random.Random(14 + writer) for writer in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool, zygotes() as processes:
        for first in range(0, KILLS, KILLS_PER_STORE):
            place = Shared(servers[0].port, servers[1])
            url = f"{place.home.conninfo}?segments={place.home.segments}&endpoint={place.home.endpoint}"
            with closing(place), closing(place.open()) as store:
                follower = Follower(store)
                for seed in range(first, min(first + KILLS_PER_STORE, KILLS), WRITERS):
                    calls = [
                        pool.submit(killed, process, rng, seed + writer, f"{place.weights_id} {url}")
                        for writer, (process, rng) in enumerate(zip(processes, rngs, strict=True))
                    ]
                    acknowledged = [triple for call in calls for triple in call.result()]
                    num_acknowledged += len(acknowledged)
                    assert follower.wrongs(acknowledged) == [], f"kills {seed} and following"
                    print(f"\r{seed + WRITERS} kills, {num_acknowledged} events acknowledged", end="", flush=True)
                num_seen += len(follower.seen)
                assert store.stats().num_events == len(follower.seen)
                num_leftovers += store.collect(grace_s=-5)
                assert store.verify() == [], "every event is whole, and only what no row names was collected"
    counted(
        f"{KILLS} kills of {WRITERS} writers at once: {num_acknowledged} events acknowledged, {num_seen} there, "
        f"0 lost, 0 torn, 0 failures to open; {num_leftovers} segments of commits that never came were collected"
    )
    assert num_acknowledged >= KILLS
    assert num_leftovers > 0, "no kill ever fell between a segment and its rows: the test has lost its point"


@contextmanager
def zygotes(module: str = "tests.store.shared.zygote") -> Any:
    with ExitStack() as stack:
        yield [stack.enter_context(zygote(module)) for _ in range(WRITERS)]
