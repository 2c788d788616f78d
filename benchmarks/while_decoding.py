"""What `recall_while_decoding` costs: from the first of 256 tokens to the last, on a tiny model on the CPU.

    python -m benchmarks.while_decoding [--family llama] [--repeats 9]

The same server and prompts in turn: without memory, with looks that recall nothing more (three of them), and with looks
that each recall an event. Medians of the seconds, and of the server's processor time: on a machine that does other work
as well, only the latter says something.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from tests.hybrid_serving import serving_of
from tests.serving import generate, stream, turn
from tests.tiny import tiny_checkpoint, tiny_v14, turns_of
from v14.check.server import Server

NUM_TOKENS = 256
WAYS = {"without memory": ("off", 1), "looks that recall nothing": ("read", 1), "looks that recall": ("read", 4)}
"""The mode, and how many events there are: the prompt recalls one, and each look another, as long as there are any."""


def spent(server: Server, ids: list[int], mode: str, namespace: str) -> tuple[float, float]:
    """Seconds from the first part of a streamed reply to the last, and processor time of the server meanwhile."""
    parts = stream(server, ids, num_tokens=NUM_TOKENS, mode=mode, namespace=namespace)
    next(parts)
    begun, processor = time.perf_counter(), processor_time()
    for _ in parts:
        pass
    return time.perf_counter() - begun, processor_time() - processor


def processor_time() -> float:
    """Seconds that the processes below this one have had a processor."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return sum(time.user + time.system for time in times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default="llama")
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    checkpoint = tiny_checkpoint(arguments.family)
    head, opening = turn(checkpoint, "system", 9, seed=1), list(turns_of(checkpoint).openings["assistant"])
    options = {"recall_while_decoding": True, "recall_max_events": 1, "write_generated": False}
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as room:
        model_dir = tiny_v14(arguments.family, Path(room) / "model", **options)
        with serving_of(arguments.family, model_dir, Path(room) / "memory") as server:
            for _, num_events in WAYS.values():
                for seed in range(num_events):
                    told = head + turn(checkpoint, "user", 20 + seed, seed=seed)
                    generate(server, told, mode="write", namespace=f"{num_events}")
            for repeat in range(arguments.repeats + 1):
                for way, (mode, num_events) in WAYS.items():
                    ids = head + turn(checkpoint, "user", 64, seed=1000 + repeat) + opening
                    times = spent(server, ids, mode, f"{num_events}")
                    found[way] += [times] if repeat else []
    medians = {way: [statistics.median(times) for times in zip(*each, strict=True)] for way, each in found.items()}
    plain = medians["without memory"][1]
    for way, (seconds, processor) in medians.items():
        print(
            f"{way:27} {seconds:.3f} s, {(NUM_TOKENS - 1) / seconds:.1f} tokens/s; processor time {processor:.3f} s, "
            f"{processor / plain:.3f} of that without"
        )


if __name__ == "__main__":
    main()
