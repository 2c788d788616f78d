"""A writer whose memory is looked into: `python -m tests.store.canaries HOME`, one command a line on stdin, one answer.

    put SEED NAMESPACE COMMITTED   a canary event and some others; waits for the commit if COMMITTED is 1
    forget SEED NAMESPACE KIND     the canary, by event, chat, between or namespace

A canary's text is made of its seed, its tokens are the bytes of the text, its trace is made of its seed, too.
"""

import random
import struct
import sys
from pathlib import Path

import torch

from tests.store.making import WEIGHTS, bits, made, noise
from v14.store.directory import DirectoryStore
from v14.store.forget import Selection, forget
from v14.types import Event, Trace


def canary(seed: int, namespace: str) -> tuple[Event, Trace, str]:
    """A canary's event, trace and text."""
    rng = random.Random(f"canary {seed} {namespace}")
    text = f"my secret is {rng.randbytes(12).hex()}"
    tokens = tuple(text.encode())
    shape = 3, len(tokens), rng.choice((1, 2)), rng.choice((4, 8))
    event = Event(
        namespace=namespace, chat_id=f"canary-chat-{seed}", role="user", said_at=1e6 + seed, token_ids=tokens,
    )  # fmt: skip
    dtype = rng.choice((torch.bfloat16, torch.float32))
    return event, Trace(keys=noise(rng, shape, dtype), values=noise(rng, shape, dtype)), text


def needles(seed: int, namespace: str) -> dict[str, bytes]:
    """Every form in which something of a canary could lie in a file or in memory."""
    event, trace, text = canary(seed, namespace)
    form = f"{len(event.token_ids)}"
    return {
        "text": text.encode(),
        "tokens as int64": struct.pack(f"<{form}q", *event.token_ids),
        "tokens as int32": struct.pack(f"<{form}i", *event.token_ids),
        "id": event.id.removeprefix("sha256:").encode(),
        "keys": bits(trace.keys[1]),
        "values": bits(trace.values[2]),
    }


def main(home: Path) -> None:
    store = DirectoryStore.open(home, WEIGHTS)
    for line in sys.stdin:
        command, seed, namespace, how = line.split()
        number = int(seed)
        if command == "put":
            event, trace = canary(number, namespace)[:2]
            others = [made(10 * number + i, namespace) for i in range(3)]
            store.put([others[0], (event, trace), *others[1:]])
            if how == "1":
                assert store.flush(30)
                store.trace(namespace, event.id)
                store.events(namespace)
            del event, trace, others
            print("put", flush=True)
        else:
            print("forgot", run_forget(store, number, namespace, how), flush=True)


def run_forget(store: DirectoryStore, number: int, namespace: str, how: str) -> int:
    event = canary(number, namespace)[0]
    selection = {
        "event": Selection(ids=(event.id,)),
        "chat": Selection(chat_id=event.chat_id),
        "between": Selection(since=event.said_at, until=event.said_at + 1),
        "namespace": Selection(),
    }[how]
    return forget(store, namespace, selection)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
