"""What is recorded: `python -m tests.store.powercut.writer SEED HOME` puts, forgets, restarts, and says what is done.

Lines: `ack` and triples of namespace, number, large of events that are committed; `forgetting` such a triple, and
`forgot` when it is done.
"""

import os
import random
import sys
from pathlib import Path

from tests.store.making import WEIGHTS, made
from v14.store.directory import DirectoryStore
from v14.types import Link

NAMESPACES = ("home", "work")
NUM_ACTIONS = 40


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def main(seed: int, home: Path) -> None:
    rng = random.Random(seed)
    store = DirectoryStore.open(home, WEIGHTS)
    unsaid: list[tuple[str, int, int]] = []
    said: list[tuple[str, int, int]] = []
    for number in range(seed * 1000, seed * 1000 + NUM_ACTIONS):
        namespace, large = rng.choice(NAMESPACES), int(rng.random() < 0.1)
        event, trace = made(number, namespace, large=bool(large))
        store.put([(event, trace)])
        if said and rng.random() < 0.3:
            other, *_ = made(said[-1][1], said[-1][0], large=bool(said[-1][2]))
            if other.namespace == namespace:
                store.link(namespace, [Link(source=event.id, target=other.id, kind="association")])
        unsaid.append((namespace, number, large))
        if rng.random() < 0.4 and store.flush():
            say("ack " + " ".join(f"{namespace} {number} {large}" for namespace, number, large in unsaid))
            said += unsaid
            unsaid.clear()
        if said and rng.random() < 0.2:
            namespace, number, large = said.pop(rng.randrange(len(said)))
            say(f"forgetting {namespace} {number} {large}")
            assert store.forget(namespace, [made(number, namespace, large=bool(large))[0].id]) == 1
            say(f"forgot {namespace} {number} {large}")
        if rng.random() < 0.05:
            store.close()
            store = DirectoryStore.open(home, WEIGHTS)
    store.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
