"""`recall_while_decoding` on a GPU: whether what follows is as read at once, what stays in graphs, and what looks cost.

    python -m benchmarks.gpu.decoding --out DIR [--families llama qwen3_5] [--repeats 8]

A small model with random weights recalls one event with its prompt and another one while it replies, whatever they are.

    distance   of the log-probabilities behind the later span from those of the same sequence read as text at once,
               beside the distance that plain SGLang makes with itself, read at once against read in two pieces; in bf16
    unlike     the same without the later event: what the distance would be for a span that nobody looks at
    nothing    replies of a memory that recalls nothing, token by token as with the memory off, beside how many of those
               are as alone where somebody else's short prompts are read meanwhile: other batches round otherwise

Speeds are tokens a second of one stream from its first token to its last, 256 tokens: three looks.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.checkpoints import v14_directory
from benchmarks.gpu.exactness import FLOOR, SLACK, distance
from benchmarks.gpu.first_token import Row
from benchmarks.gpu.servers import GraphCount, machine, server_of
from tests.serving import distributions, flush_cache, generate, stream, turn
from tests.tiny import turns_of
from v14.check.server import Server
from v14.engines.sglang.reading import FIRST_LOOK

FAMILIES = ("llama", "qwen3_5")
TOLD = (60, 20)
"""Tokens of the two turns that are told: by its length one is known from the other."""
COMPARED = 4
"""Tokens behind the later span whose distributions are compared."""
NUM_TOKENS = 256
ATTEMPTS = 16
BETWEEN_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Place:
    """A served model with random weights."""

    server: Server
    model_dir: Path

    def ids(self, role: str, num_tokens: int, seed: int) -> list[int]:
        """A turn of random tokens."""
        return turn(self.model_dir, role, num_tokens, seed=seed)

    @property
    def head(self) -> list[int]:
        """What every prompt begins with."""
        return self.ids("system", 9, 1)

    @property
    def opening(self) -> list[int]:
        """What every prompt ends with."""
        return list(turns_of(self.model_dir).openings["assistant"])

    def read(self, ids: Sequence[int], mode: str, namespace: str, num_tokens: int) -> dict[str, Any]:
        """A reply with the log-probabilities of all tokens."""
        return generate(self.server, list(ids), num_tokens=num_tokens, logprobs=True, mode=mode, namespace=namespace)


@dataclass(frozen=True, kw_only=True)
class Later:
    """A reply that recalled something on the way, `at` its token: the parts of the same sequence in front of and behind
    the question, and what was found."""

    told: tuple[list[int], list[int]]
    question: list[int]
    reply: dict[str, Any]
    at: int


def later_recalls(place: Place) -> list[Later]:
    """Replies whose prompt recalled the first event and which recalled the second later; random weights choose."""
    found = []
    for seed in range(ATTEMPTS):
        question = place.ids("user", 23, 100 + seed)
        told = (place.ids("user", TOLD[0], seed), place.ids("user", TOLD[1], seed))
        namespace = f"law {seed}"
        # Each event is read where it comes to stand, since a trace is of the context that it was read in.
        generate(place.server, [*place.head, *told[0], *question, *told[1]], mode="write", namespace=namespace)
        flush_cache(place.server)
        prompt = [*place.head, *question, *place.opening]
        reply = place.read(prompt, "read", namespace, 2 * FIRST_LOOK)
        report = reply["meta_info"]["v14"]
        first = [event["num_tokens"] for event in report["recalled"]]
        later = [event["num_tokens"] for recall in report.get("while_decoding", ()) for event in recall["recalled"]]
        if (first, later) == ([TOLD[0]], [TOLD[1]]):
            found.append(Later(told=told, question=question, reply=reply, at=report["while_decoding"][0]["at"]))
    return found


def distances(place: Place, later: Later) -> tuple[float, float, float]:
    """Behind the later span: from the same read at once, of that from itself in two pieces, and from what has no later
    event."""
    written = later.reply["output_ids"]

    def ids(*parts: Sequence[int]) -> list[int]:
        return [token for part in (place.head, *parts, place.opening, written[: later.at]) for token in part]

    behind = distributions(later.reply)[later.at : later.at + COMPARED]
    whole = ids(later.told[0], later.question, later.told[1])
    flush_cache(place.server)
    alone = distributions(place.read(whole, "off", "law", COMPARED))
    flush_cache(place.server)
    place.read(whole[: len(whole) - later.at], "off", "law", 1)
    pieces = distributions(place.read(whole, "off", "law", COMPARED))
    flush_cache(place.server)
    without = distributions(place.read(ids(later.told[0], later.question), "off", "law", COMPARED))
    return distance(alone, behind), distance(alone, pieces), distance(alone[:1], without[:1])


def speed(place: Place, ids: list[int], mode: str, namespace: str) -> tuple[float, list[int], GraphCount]:
    """Tokens a second of a stream, its tokens, and the count of its passes."""
    counted = GraphCount(place.server)
    parts = stream(place.server, ids, num_tokens=NUM_TOKENS, mode=mode, namespace=namespace)
    first = next(parts)
    begun = time.perf_counter()
    *_, last = parts
    written = last["meta_info"]["completion_tokens"] - first["meta_info"]["completion_tokens"]
    rate = written / (time.perf_counter() - begun)
    time.sleep(0.2)  # the last lines of the log
    return rate, last["output_ids"], counted


@contextmanager
def company(place: Place) -> Iterator[None]:
    """Short prompts of another client, one after the other."""
    ended = threading.Event()

    def ask() -> None:
        for seed in count(5000):
            if ended.wait(BETWEEN_S):
                return
            ids = [*place.head, *place.ids("user", 64, seed), *place.opening]
            generate(place.server, ids, num_tokens=1, mode="off")

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def rows_of(family: str, place: Place, nothing: Place, repeats: int) -> list[Row]:
    """All figures of a family; `nothing` is served with a floor that recalls nothing."""
    found = [distances(place, later) for later in later_recalls(place)]
    if not found:
        raise RuntimeError(f"of {ATTEMPTS} replies none recalled first the one and then the other event")
    largest, own, unlike = max(d[0] for d in found), max(d[1] for d in found), min(d[2] for d in found)
    print(
        f"{family}: {len(found)} later recalls, distance {largest:.4f}, own {own:.4f}, unlike {unlike:.4f}", flush=True
    )
    bound = max(FLOOR, SLACK * own)
    rows = [
        Row(figure=f"{family}, distance behind a later span", plain=own, memory=largest,
            ratio=largest / max(own, 1e-9), bound=bound, holds=largest <= bound < unlike),
    ]  # fmt: skip
    rates: dict[str, list[float]] = {"off": [], "read": [], "recalls": []}
    passes = {name: {"passes": 0, "in_graphs": 0} for name in rates}
    same = beside = 0
    for each in (place, nothing):
        for seed, length in enumerate((40, 41, 42, 43)):
            generate(each.server, each.head + each.ids("user", length, seed), mode="write", namespace="speed")
    for repeat in range(repeats + 1):
        ids = [*nothing.head, *nothing.ids("user", 64, 1000 + repeat), *nothing.opening]
        replies = {}
        for name, of, mode in (("off", nothing, "off"), ("read", nothing, "read"), ("recalls", place, "read")):
            rate, replies[name], counted = speed(of, ids, mode, "speed")
            if repeat:  # the first only warms up
                rates[name].append(rate)
                for key, number in counted.read()["decode"].items():
                    passes[name][key] += number
        with company(nothing):
            _, accompanied, _ = speed(nothing, ids, "off", "speed")
        if repeat:
            same += replies["off"] == replies["read"]
            beside += replies["off"] == accompanied
    medians = {name: statistics.median(each) for name, each in rates.items()}
    shares = {name: each["in_graphs"] / max(1, each["passes"]) for name, each in passes.items()}
    for name, what in (("read", "looks that recall nothing"), ("recalls", "looks that recall")):
        ratio = medians[name] / medians["off"]
        # For the record: a pass of so small a model takes next to nothing, a look costs several.
        rows.append(Row(figure=f"{family}, {what}, tokens/s", plain=medians["off"], memory=medians[name], ratio=ratio,
                        bound=0.0, holds=True))  # fmt: skip
        in_graphs = shares[name] / shares["off"] if shares["off"] else float(shares[name] == 0)
        rows.append(Row(figure=f"{family}, {what}, decode passes in graphs", plain=shares["off"], memory=shares[name],
                        ratio=in_graphs, bound=1.0, holds=in_graphs >= 1))  # fmt: skip
    rows.append(Row(figure=f"{family}, replies that recall nothing as without", plain=beside, memory=same,
                    ratio=same / max(1, beside), bound=1.0, holds=same >= beside))  # fmt: skip
    for each in (place, nothing):
        if each.server.tracebacks():
            raise RuntimeError(each.server.log_tail(60))
    return rows


def measure(family: str, base: Path, backend: str, repeats: int) -> list[Row]:
    """Start both servers of a family and measure."""
    options = {"write_generated": False, "recall_while_decoding": True, "recall_max_events": 1, "reinstate": "reread"}
    checkpoint = v14_directory(family, base / "model", **options)
    silent = v14_directory(family, base / "silent", recall_floor=1e9, **options)
    with (
        server_of(checkpoint, base / "memory", backend=backend) as recalling,
        server_of(silent, base / "silent memory", backend=backend) as other,
    ):
        recalling.start()
        other.start()
        place, nothing = Place(server=recalling, model_dir=checkpoint), Place(server=other, model_dir=silent)
        return rows_of(family, place, nothing, repeats)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--families", nargs="+", default=FAMILIES)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--backend", default="triton", choices=["triton", "flashinfer"])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_grad_enabled(False)
    rows: list[Row] = []
    for family in arguments.families:
        with tempfile.TemporaryDirectory() as base:
            rows += measure(family, Path(base), arguments.backend, arguments.repeats)
        (arguments.out / "decoding.json").write_text(
            json.dumps({**machine(), "rows": [asdict(row) for row in rows]}, indent=1) + "\n"
        )
    for row in rows:
        mark = "holds" if row.holds else "DOES NOT HOLD"
        print(f"{row.figure:<62}{row.plain:>10.4f}{row.memory:>10.4f}{row.ratio:>8.3f}  bound {row.bound:<7.4g} {mark}")
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
