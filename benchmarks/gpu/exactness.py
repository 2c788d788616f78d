"""The law of exactness on a GPU, in bf16: events read and then a prompt in one sequence, against the events stored,
recalled, and the prompt read behind their span.

    python -m benchmarks.gpu.exactness --out DIR [--backend triton] [--families llama qwen3_5 …] [--modes kv reread]

bf16 rounds, so the distance stands beside two that plain SGLang makes with itself on the very same sequence: read alone
against read in a batch of eight, and read at once against read in two pieces. Distances are the largest difference of
log-probabilities among the 50 likeliest next tokens, over all generated positions whose tokens agree.

Checkpoints are random and made on the spot; one server for each family and mode, several at a time. Exits with 1 when a
distance is larger than `SLACK` times the larger of plain SGLang's own.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.checkpoints import FAMILIES, v14_directory
from benchmarks.gpu.servers import GraphCount, machine, server_of
from tests.serving import distributions, flush_cache, generate, post, turn
from tests.tiny import VOCAB_SIZE, turns_of
from v14.check.server import Server
from v14.types import MAX_EVENT_TOKENS

HEAD_TOKENS = 37
TOLD = ([64], [128], [140], [40, 64, 33], [300], [90, 500])
"""Turns told in each case, by their length in tokens."""
ASKED = (23, 180)
"""Lengths of the question behind them."""
NUM_TOKENS = 8
LIKELIEST = 50
SLACK = 2.0
FLOOR = 0.02
"""Distances below this are rounding, whatever plain SGLang's own are."""
ARGUMENTS = ("--enable-fp32-lm-head",)
"""Logits in bf16 are a thirtieth apart, which would hide what is compared here."""

FAMILY_ARGUMENTS = {"gpt_oss": ("--disable-hybrid-swa-memory",)}
FAMILY_BACKENDS = {"gpt_oss": "triton", "lfm2": "flashinfer", "nemotron_h": "flashinfer"}
"""The backends that SGLang has for a family, where it has one only."""

MAKING = threading.Lock()
"""Transformers makes a model under a default dtype and a random state that threads share."""

Distributions = list[dict[int, float]]


@dataclass(kw_only=True)
class Row:
    """One family in one mode: distances over all cases."""

    family: str
    mode: str
    start_s: float = 0.0
    recalled: list[float] = field(default_factory=list)
    other_batch: list[float] = field(default_factory=list)
    two_pieces: list[float] = field(default_factory=list)
    not_recalled: list[float] = field(default_factory=list)
    told_tokens: list[int] = field(default_factory=list)
    recalled_tokens: list[int] = field(default_factory=list)
    placed: int = 0
    graphs: dict[str, Any] = field(default_factory=dict)
    tracebacks: int = 0
    error: str = ""

    @property
    def all_events(self) -> bool:
        """Whether everything that was told was recalled."""
        return self.recalled_tokens == self.told_tokens

    @property
    def own(self) -> float:
        """The largest distance that plain SGLang makes with itself."""
        return max([*self.other_batch, *self.two_pieces], default=0.0)

    @property
    def holds(self) -> bool:
        """Whether recalling is as exact as plain SGLang is with itself."""
        return (
            not self.error
            and self.tracebacks == 0
            and self.all_events
            and bool(self.recalled)
            and max(self.recalled) <= max(FLOOR, SLACK * self.own)
            # Otherwise the law would hold for a model that looks at nothing.
            and min(self.not_recalled) > max(self.recalled)
        )


def distance(one: Distributions, other: Distributions) -> float:
    """See the module's text."""
    largest = 0.0
    for a, b in zip(one, other, strict=True):
        likeliest = sorted(a, key=a.__getitem__, reverse=True)[:LIKELIEST]
        largest = max(largest, *(abs(a[token] - b[token]) for token in likeliest))
        if max(a, key=a.__getitem__) != max(b, key=b.__getitem__):
            break
    return largest


def measure(family: str, mode: str, backend: str, place: Path) -> Row:
    """Start a server of `family` and go through all cases."""
    row = Row(family=family, mode=mode)
    try:
        with MAKING:
            model_dir = v14_directory(
                family, place / "model", write_generated=False, reinstate=mode, engram_rank=MAX_EVENT_TOKENS
            )
        backend = FAMILY_BACKENDS.get(family, backend)
        arguments = (*ARGUMENTS, *FAMILY_ARGUMENTS.get(family, ()))
        with server_of(model_dir, place / "memory", *arguments, backend=backend) as server:
            begun = time.monotonic()
            server.start()
            row.start_s = time.monotonic() - begun
            for number, told in enumerate(TOLD):
                for asked in ASKED:
                    _case(row, server, model_dir, f"{number} {asked}", told, asked)
            row.graphs = {name: _graphs(server, model_dir, memory=name == "on") for name in ("off", "on")}
            row.tracebacks = server.tracebacks()
    except Exception as error:  # noqa: BLE001 - one family that fails must not take the others' results along
        row.error = f"{type(error).__name__}: {error}"
    return row


def _case(row: Row, server: Server, model_dir: Path, namespace: str, lengths: Sequence[int], asked: int) -> None:
    head = turn(model_dir, "system", HEAD_TOKENS, seed=1)
    told = [token for seed, n in enumerate(lengths) for token in turn(model_dir, "user", n, seed=10 + seed)]
    prompt = [*turn(model_dir, "user", asked, seed=2), *turns_of(model_dir).openings["assistant"]]
    whole = head + told + prompt

    def read(ids: list[int], mode: str = "off") -> dict[str, Any]:
        return generate(server, ids, num_tokens=NUM_TOKENS, logprobs=True, mode=mode, namespace=namespace)

    generate(server, head + told, namespace=namespace)
    flush_cache(server)
    recalled = read(head + prompt, mode="read")
    flush_cache(server)
    alone = distributions(read(whole))
    flush_cache(server)
    batched = distributions(_batched(server, model_dir, whole))
    flush_cache(server)
    generate(server, head + told, num_tokens=1, mode="off", namespace=namespace)
    pieces = distributions(read(whole))
    bare = distributions(read(head + prompt))

    row.told_tokens.append(len(told))
    row.recalled_tokens.append(sum(event["num_tokens"] for event in recalled["meta_info"]["v14"]["recalled"]))
    row.placed += recalled["meta_info"]["cached_tokens"] >= len(head)
    row.recalled.append(distance(alone, distributions(recalled)))
    row.other_batch.append(distance(alone, batched))
    row.two_pieces.append(distance(alone, pieces))
    row.not_recalled.append(distance(alone[:1], bare[:1]))


def _batched(server: Server, model_dir: Path, ids: list[int]) -> dict[str, Any]:
    """The same request as the first of eight that are read together, without memory."""
    others = [turn(model_dir, "user", 100 + 13 * seed, seed=50 + seed) for seed in range(7)]
    body = {
        "input_ids": [ids, *others],
        "sampling_params": {"max_new_tokens": NUM_TOKENS, "temperature": 0.0, "ignore_eos": True},
        "return_logprob": True,
        "top_logprobs_num": VOCAB_SIZE,
    }
    replies: Any = post(server, "/generate", body, X_V14_Memory="off")
    reply: dict[str, Any] = replies[0]
    return reply


def _graphs(server: Server, model_dir: Path, *, memory: bool) -> dict[str, dict[str, int]]:
    """Passes in graphs while ten ordinary prompts are answered; with memory, each recalls what was told before."""
    flush_cache(server)
    count = GraphCount(server)
    for seed in range(10):
        prompt = turn(model_dir, "system", HEAD_TOKENS, seed=1) + turn(model_dir, "user", 60, seed=200 + seed)
        prompt += turns_of(model_dir).openings["assistant"]
        mode, namespace = ("read", f"{seed % len(TOLD)} {ASKED[0]}") if memory else ("off", "graphs")
        generate(server, prompt, num_tokens=NUM_TOKENS, mode=mode, namespace=namespace)
    time.sleep(1.0)
    return count.read()


def _line(row: Row) -> str:
    if row.error:
        return f"{row.family:<13}{row.mode:<8}FAILED {row.error.splitlines()[0][:90]}"
    numbers = [
        *(statistics.median(row.recalled), max(row.recalled)),
        *(max(row.other_batch), max(row.two_pieces), statistics.median(row.not_recalled)),
    ]
    shares = [
        f"{row.graphs[memory][phase]['in_graphs']}/{row.graphs[memory][phase]['passes']}"
        for phase in ("prefill", "decode")
        for memory in ("off", "on")
    ]
    placed = f"{row.placed}/{len(row.recalled)}"
    return (
        f"{row.family:<13}{row.mode:<8}"
        + "".join(f"{number:>10.4f}" for number in numbers)
        + f"{placed:>8}"
        + "".join(f"{share:>8}" for share in shares)
        + f"{row.start_s:>7.0f}  {'holds' if row.holds else 'DOES NOT HOLD'}"
        + ("" if row.all_events else " (not all events recalled)")
        + (f" ({row.tracebacks} tracebacks)" if row.tracebacks else "")
    )


HEADING = (
    f"{'family':<13}{'mode':<8}{'recalled':>10}{'largest':>10}{'batch':>10}{'pieces':>10}{'nothing':>10}{'placed':>8}"
    f"{'pre off':>8}{'pre on':>8}{'dec off':>8}{'dec on':>8}{'start':>7}"
)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--modes", nargs="+", default=["kv"], choices=["kv", "reread"])
    parser.add_argument("--backend", default="triton", choices=["triton", "flashinfer"])
    parser.add_argument("--jobs", type=int, default=3, help="servers at a time")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    pairs = [(family, mode) for mode in arguments.modes for family in arguments.families]
    done: list[Row] = []
    with tempfile.TemporaryDirectory() as base, ThreadPoolExecutor(arguments.jobs) as pool:

        def run(pair: tuple[str, str]) -> None:
            place = Path(base) / "-".join(pair)
            place.mkdir()
            row = measure(*pair, arguments.backend, place)
            log = place / "memory.log"
            if log.exists() and not row.holds:
                (arguments.out / f"{'-'.join(pair)}-{arguments.backend}.log").write_bytes(log.read_bytes()[-500_000:])
            done.append(row)
            print(_line(row), flush=True)
            # A run that is cut off keeps what it had.
            _write(arguments.out / f"exactness-{arguments.backend}.json", arguments.backend, done)

        list(pool.map(run, pairs))
    print(f"\n{machine()['machine']}, {arguments.backend}\n{HEADING}")
    for row in sorted(done, key=lambda row: pairs.index((row.family, row.mode))):
        print(_line(row))
    return 0 if all(row.holds for row in done) else 1


def _write(path: Path, backend: str, rows: list[Row]) -> None:
    result = {**machine(), "backend": backend, "rows": [{**asdict(row), "holds": row.holds} for row in rows]}
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
