"""Eight clients tell, ask and hang up for a minute; SGLang's own idle check then finds every KV slot."""

import random
import threading
import time

import pytest

from tests.serving import generate, serving, stream_and_drop, turn
from tests.tiny import tiny_checkpoint, tiny_v14, turns_of

pytestmark = [pytest.mark.engine, pytest.mark.slow]

FAMILY = "llama"
NUM_CLIENTS = 8
SECONDS = 60.0
IDLE_SECONDS = 5.0


def test_clients_that_come_and_go_leave_nothing_behind(tmp_path):
    checkpoint = tiny_checkpoint(FAMILY)
    opening = list(turns_of(checkpoint).openings["assistant"])
    head = turn(checkpoint, "system", 9, seed=1)
    failures: list[BaseException] = []
    num_requests = [0] * NUM_CLIENTS

    # A small pool: requests are evicted, retracted and wait for each other.
    model_dir = tiny_v14(FAMILY, tmp_path / "model", recall_max_events=4)
    with serving(model_dir, tmp_path / "memory", "--max-total-tokens", "3000") as server:

        def client(number):
            draw = random.Random(number)
            deadline = time.monotonic() + SECONDS
            try:
                while time.monotonic() < deadline:
                    num_tokens = draw.choice([12, 60, 150, 400])
                    prompt = head + turn(checkpoint, "user", num_tokens, seed=draw.randrange(1000)) + opening
                    namespace = f"n{draw.randrange(3)}"
                    if draw.random() < 0.2:
                        stream_and_drop(server, prompt, namespace=namespace)
                    else:
                        mode = draw.choice(["both", "both", "read", "write", "off"])
                        reply = generate(
                            server, prompt, num_tokens=draw.randrange(1, 30), namespace=namespace, mode=mode
                        )
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
    print(f"{sum(num_requests)} requests of {NUM_CLIENTS} clients")
