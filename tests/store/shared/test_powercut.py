"""The power goes for writers, PostgreSQL and the object store at once: nothing acknowledged is lost, nothing is torn.

Whether PostgreSQL and the object store keep what they acknowledged is theirs. Ours is the order: an object is whole,
and acknowledged, before a row names it. So at a random instant PostgreSQL is ended without a checkpoint (`-m
immediate`), what is on the way to or from the object store is lost, the writer is killed; then all of it comes back.
"""

import os
import random
import signal
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tests.shared_servers import Postgres
from tests.store.contract.places import Shared
from tests.store.making import again, made, same_trace
from tests.store.test_kill import killed, zygote
from v14.errors import StoreError

CUTS = int(os.environ.get("CUTS", "200"))
CUTS_PER_STORE = 20
SEED = int(os.environ.get("SEED", "14"))
DELAY_S = 0.03
"""What the network holds: about what a commit takes."""

pytestmark = [pytest.mark.shared, pytest.mark.slow, pytest.mark.timeout(7200)]


class Site:
    """A place whose servers lose their power together."""

    def __init__(self, place: Shared, postgres: Postgres, rng: random.Random) -> None:
        self.place, self.postgres, self.rng = place, postgres, rng
        place.objects.delay_s = DELAY_S
        # A machine that is busy with other work takes its time to answer, and that is no failure to open.
        place.home = replace(place.home, conninfo=f"{place.home.conninfo}?connect_timeout=120")

    def write_and_cut(self, process: Any, seed: int) -> list[tuple[str, int, bool]]:
        """What a writer had acknowledged when the power went, or a moment later."""
        home = self.place.home
        url = f"{home.conninfo}&segments={home.segments}&endpoint={home.endpoint}"
        return killed(process, self.rng, seed, f"{self.place.weights_id} {url}", self._cut)

    def _cut(self) -> None:
        steps = [self.place.objects.cut, self.place.postgres.cut, lambda: self.postgres.stop(signal.SIGQUIT)]
        self.rng.shuffle(steps)
        # The writer is killed last, or as good as at once.
        for step in steps:
            step()
            time.sleep(self.rng.choice((0.0, self.rng.uniform(0, DELAY_S))))

    def restore(self) -> None:
        if self.postgres.process is not None and self.postgres.process.poll() is not None:
            self.postgres.start()
        self.place.objects.mend()
        self.place.postgres.mend()

    def wrongs(self, acknowledged: Iterable[tuple[str, int, bool]]) -> tuple[list[str], int, int]:
        """What is wrong with the store that opens then, how many events it has, and what no row names."""
        try:
            store = self.place.open()
        except StoreError as error:
            return [f"does not open: {error}"], 0, 0
        found, present = [], set()
        with closing(store):
            for namespace in store.namespaces():
                for event in store.events(namespace):
                    present.add((namespace, event.id))
                    expected, trace = again(event)
                    try:
                        if event != expected or not same_trace(store.trace(namespace, event.id), trace):
                            found.append(f"{event.id} is not what was put")
                    except (StoreError, KeyError) as error:
                        found.append(f"listed, not whole: {error}")
            for namespace, number, large in acknowledged:
                if (namespace, made(number, namespace, large=large)[0].id) not in present:
                    found.append(f"acknowledged, not there: {namespace} {number}")
            stats = store.stats()
            if stats.num_corrupt or stats.num_events != len(present):
                found.append(f"{len(present)} events listed, {stats}")
            num_leftovers = store.collect(grace_s=-5)
            if found == [] and store.verify():
                found.append("what was collected was needed")
        return found, len(present), num_leftovers


def test_power_cuts(servers: tuple[Postgres, int]) -> None:
    rng = random.Random(SEED)
    num_acknowledged = num_seen = num_leftovers = 0
    with zygote("tests.store.shared.zygote") as process:
        for first in range(0, CUTS, CUTS_PER_STORE):
            with closing(Shared(servers[0].port, servers[1])) as place:
                site, acknowledged = Site(place, servers[0], rng), []
                for number in range(first, min(first + CUTS_PER_STORE, CUTS)):
                    acknowledged += site.write_and_cut(process, number)
                    site.restore()
                    found, num_held, num_loose = site.wrongs(acknowledged)
                    assert found == [], f"cut {number}"
                    num_leftovers += num_loose
                    print(
                        f"\r{number + 1} cuts, {num_acknowledged + len(acknowledged)} acknowledged", end="", flush=True
                    )
                num_acknowledged += len(acknowledged)
                num_seen += num_held
    print(
        f"\n{CUTS} power cuts: {num_acknowledged} events acknowledged, {num_seen} there, 0 lost, 0 torn, "
        f"0 failures to open; {num_leftovers} objects of commits that never came were collected"
    )
    assert num_acknowledged >= CUTS
    assert num_leftovers > 0 or CUTS < 50, (
        "no cut ever fell between an object and its rows: the test has lost its point"
    )


def test_rows_before_their_objects_are_seen(servers: tuple[Postgres, int]) -> None:
    """The negative control: the same cuts of a store that commits in the wrong order."""
    rng = random.Random(SEED)
    with zygote("tests.store.shared.zygote_rows_first") as process:
        for number in range(60):
            with closing(Shared(servers[0].port, servers[1])) as place:
                site = Site(place, servers[0], rng)
                acknowledged = site.write_and_cut(process, number)
                site.restore()
                found, *_ = site.wrongs(acknowledged)
            if any("not whole" in wrong for wrong in found):
                print(f"seen at cut {number + 1}")
                return
    pytest.fail("60 cuts between rows and their objects went unseen")
