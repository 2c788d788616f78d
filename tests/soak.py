"""Clients that come and go: they tell, ask and hang up, all at once, for a while."""

import random
import threading
import time
from pathlib import Path

from tests.serving import generate, stream_and_drop, turn
from tests.tiny import turns_of
from v14.check.server import Server

NUM_CLIENTS = 8
IDLE_SECONDS = 5.0


def come_and_go(server: Server, checkpoint: Path, seconds: float) -> int:
    """Let the clients live, then the engine idle, which checks every KV slot; returns the number of requests."""
    opening = list(turns_of(checkpoint).openings["assistant"])
    head = turn(checkpoint, "system", 9, seed=1)
    failures: list[BaseException] = []
    num_requests = [0] * NUM_CLIENTS

    def client(number: int) -> None:
        draw = random.Random(number)
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                num_tokens = draw.choice([12, 60, 150, 400])
                prompt = head + turn(checkpoint, "user", num_tokens, seed=draw.randrange(1000)) + opening
                namespace = f"n{draw.randrange(3)}"
                if draw.random() < 0.2:
                    stream_and_drop(server, prompt, namespace=namespace)
                else:
                    mode = draw.choice(["both", "both", "read", "write", "off"])
                    reply = generate(server, prompt, num_tokens=draw.randrange(1, 30), namespace=namespace, mode=mode)
                    assert reply["output_ids"], reply
                num_requests[number] += 1
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=client, args=(number,)) for number in range(NUM_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(IDLE_SECONDS)
    assert failures == []
    assert min(num_requests) > 3, num_requests
    assert server.running
    assert server.tracebacks() == 0, server.log_tail()
    assert len(generate(server, head + turn(checkpoint, "user", 20, seed=1) + opening)["output_ids"]) == 4
    return sum(num_requests)
