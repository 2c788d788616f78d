"""The power goes for writers, PostgreSQL and the network at once: nothing acknowledged is lost, nothing is torn.

PostgreSQL lies on a file system that is shut down without a flush: what it had not synced is gone. What is on the way
to or from the object store is lost, the writers are killed; then all of it comes back. What an object store keeps of
what it acknowledged is its own affair; ours is the order: an object is whole before a row names it.
"""

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.counts import counted
from tests.power_disk import PowerDisk
from tests.shared_servers import NO_SYNC, Postgres, postgres_server
from tests.store.contract.places import Shared
from tests.store.making import again, made, same_trace
from tests.store.shared.test_kill import zygotes
from tests.store.test_kill import killed
from v14.errors import StoreError

CUTS = int(os.environ.get("CUTS", "200"))
CUTS_PER_STORE = 20
WRITERS = 4
SEED = int(os.environ.get("SEED", "14"))
DELAY_S = 0.03
"""What the network holds: about what a commit takes."""
DISK_MIB = 300
MEMORY = Path("/dev/shm")
"""Where the disk's image is quick to write."""

pytestmark = [pytest.mark.shared, pytest.mark.slow, pytest.mark.timeout(7200)]

Triple = tuple[str, int, bool]


class Site:
    """A place whose servers lose their power together."""

    def __init__(self, place: Shared, postgres: Postgres, disk: PowerDisk, rng: random.Random) -> None:
        self.place, self.postgres, self.disk, self.rng = place, postgres, disk, rng
        self._read: set[tuple[str, str]] = set()
        # A machine that is busy with other work takes its time to answer, and that is no failure to open.
        place.home = replace(place.home, conninfo=f"{place.home.conninfo}?connect_timeout=120")

    def write_and_cut(self, processes: list[Any], seed: int) -> list[Triple]:
        """What writers had acknowledged when the power went, or a moment later."""
        home = self.place.home
        url = f"{self.place.weights_id} {home.conninfo}&segments={home.segments}&endpoint={home.endpoint}"
        self.place.objects.delay_s = DELAY_S
        # All of them write before the power goes for all of them.
        together = threading.Barrier(len(processes), self._cut)
        with ThreadPoolExecutor(len(processes)) as pool:
            calls = [
                pool.submit(killed, process, random.Random(seed + number), seed + number, url, together.wait)
                for number, process in enumerate(processes)
            ]
            return [triple for call in calls for triple in call.result()]

    def _cut(self) -> None:
        steps: list[Callable[[], None]] = [self.place.objects.cut, self.place.postgres.cut, self.disk.cut]
        self.rng.shuffle(steps)
        for step in steps:
            step()
            time.sleep(self.rng.choice((0.0, self.rng.uniform(0, DELAY_S))))

    def restore(self) -> None:
        """The power comes back."""
        self.postgres.stop(signal.SIGQUIT)
        self.disk.unmount()
        self.disk.mount()
        self.postgres.start()
        self.place.objects.delay_s = 0.0
        self.place.objects.mend()
        self.place.postgres.mend()

    def wrongs(self, acknowledged: Iterable[Triple], *, whole: bool = False) -> tuple[list[str], int, int]:
        """What is wrong with the store that opens then, how many events it has, and how many objects no row names.

        Traces are read of the events that are new; of all of them where `whole`.
        """
        try:
            store = self.place.open(tend_s=3600)  # nothing is rewritten while it is looked at
        except StoreError as error:
            return [f"does not open: {error}"], 0, 0
        found, present = [], set()
        with closing(store):
            for namespace in store.namespaces():
                for event in store.events(namespace):
                    present.add((namespace, event.id))
                    if (namespace, event.id) in self._read:
                        continue
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
            is_left = store._catalog.segments() <= store._segments.blobs.list().keys()
            if found == [] and not (is_left and (not whole or store.verify() == [])):
                found.append("what was collected was needed")
        self._read |= present
        return found, len(present), num_leftovers


@contextmanager
def power(settings: tuple[str, ...] = ()) -> Iterator[tuple[PowerDisk, Postgres]]:
    """A PostgreSQL server on a disk whose power can be cut."""
    with TemporaryDirectory(prefix="v14-power-", dir=MEMORY if MEMORY.is_dir() else None) as place:
        # PostgreSQL's user has to get through.
        os.chmod(place, 0o711)
        try:
            disk = PowerDisk.make(Path(place), DISK_MIB)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no disk can be mounted here: {getattr(error, 'stderr', '') or error}")
        with closing(disk), postgres_server(disk.path, ("shared_buffers=16MB", *settings)) as postgres:
            yield disk, postgres


def test_power_cuts(servers: tuple[Postgres, int]) -> None:
    rng = random.Random(SEED)
    num_acknowledged = num_seen = num_leftovers = 0
    with power() as (disk, postgres), zygotes() as processes:
        for first in range(0, CUTS, CUTS_PER_STORE):
            with closing(Shared(postgres.port, servers[1])) as place:
                site, acknowledged = Site(place, postgres, disk, rng), []
                for number in range(first, min(first + CUTS_PER_STORE, CUTS)):
                    acknowledged += site.write_and_cut(processes, WRITERS * number)
                    site.restore()
                    is_last = number + 1 in (first + CUTS_PER_STORE, CUTS)
                    found, num_held, num_loose = site.wrongs(acknowledged, whole=is_last)
                    assert found == [], f"cut {number}"
                    num_leftovers += num_loose
                    print(
                        f"\r{number + 1} cuts, {num_acknowledged + len(acknowledged)} acknowledged", end="", flush=True
                    )
                num_acknowledged += len(acknowledged)
                num_seen += num_held
    counted(
        f"{CUTS} power cuts of {WRITERS} writers and PostgreSQL: {num_acknowledged} events acknowledged, {num_seen} "
        f"there, 0 lost, 0 torn, 0 failures to open; {num_leftovers} objects of commits that never came were collected"
    )
    assert num_acknowledged >= CUTS
    assert num_leftovers > 0 or CUTS < 50, (
        "no cut ever fell between an object and its rows: the test has lost its point"
    )


def test_a_database_that_does_not_sync_is_seen(servers: tuple[Postgres, int]) -> None:
    """A negative control: a cut does cost PostgreSQL what it did not sync."""
    with power(NO_SYNC) as (disk, postgres), zygotes() as processes:
        rng = random.Random(SEED)
        for number in range(10):
            with closing(Shared(postgres.port, servers[1])) as place:
                site = Site(place, postgres, disk, rng)
                acknowledged = site.write_and_cut(processes, WRITERS * number)
                try:
                    site.restore()
                except AssertionError:
                    counted(f"control, a database that does not sync: cut {number + 1}: PostgreSQL did not start again")
                    return
                found, *_ = site.wrongs(acknowledged)
            if found:
                counted(f"control, a database that does not sync: cut {number + 1}: {found[0]}")
                return
    pytest.fail("10 cuts of a database that does not sync went unseen")


def test_rows_before_their_objects_are_seen(servers: tuple[Postgres, int]) -> None:
    """A negative control: the same cuts of a store that commits in the wrong order."""
    with power() as (disk, postgres), zygotes("tests.store.shared.zygote_rows_first") as processes:
        rng = random.Random(SEED)
        for number in range(60):
            with closing(Shared(postgres.port, servers[1])) as place:
                site = Site(place, postgres, disk, rng)
                acknowledged = site.write_and_cut(processes, WRITERS * number)
                site.restore()
                found, *_ = site.wrongs(acknowledged)
            if any("not whole" in wrong for wrong in found):
                counted(f"control, rows before their objects: seen at cut {number + 1}")
                return
    pytest.fail("60 cuts between rows and their objects went unseen")
