"""Forks writers that are killed: `python -m tests.store.zygote`, one line `SEED HOME` on stdin for each.

Everything is imported once, and no thread runs here, so that a fork costs milliseconds. For each line it answers
`pid N`, then whatever the child says (`ack NAMESPACE NUMBER LARGE …`, or `failed WHY` when it can go no further), then
`reaped STATUS` when it is dead.
"""

import itertools
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.store.making import WEIGHTS, made
from v14.errors import StoreError
from v14.store.core import CoreStore
from v14.store.directory import DirectoryStore

NAMESPACES = ("home", "work")


def say(text: str) -> None:
    """One write, so that a kill leaves a line whole or unwritten."""
    os.write(1, f"{text}\n".encode())


def committed(store: CoreStore) -> bool:
    """Whether everything put is committed; `flush` alone waits for nobody while writing fails."""
    store.flush()
    with store._writer.pending() as pending:
        return not pending.events


def write_until_killed(seed: int, store: CoreStore) -> None:
    rng = random.Random(seed)
    unsaid: list[tuple[str, int, int]] = []
    for number in itertools.count(seed * 100_000):
        namespace, large = rng.choice(NAMESPACES), int(rng.random() < 0.1)
        event, trace = made(number, namespace, large=bool(large))
        store.put([(event, trace)])
        unsaid.append((namespace, number, large))
        store.touch(namespace, [event.id], float(number))
        if rng.random() < 0.4 and committed(store):
            say("ack " + " ".join(f"{namespace} {number} {large}" for namespace, number, large in unsaid))
            unsaid.clear()


def embedded(home: str) -> CoreStore:
    return DirectoryStore.open(Path(home), WEIGHTS)


def main(open_store: Callable[[str], CoreStore] = embedded) -> None:
    for line in sys.stdin:
        seed, home = line.split(maxsplit=1)
        pid = os.fork()
        if pid == 0:
            try:
                write_until_killed(int(seed), open_store(home.strip()))
            except StoreError as error:
                say(f"failed {error}")
                signal.pause()
        say(f"pid {pid}")
        _, status = os.waitpid(pid, 0)
        say(f"reaped {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
