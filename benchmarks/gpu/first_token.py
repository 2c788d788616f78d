"""What the memory costs: time to the first token, decode speed and a long document, with and without, in turn.

    python -m benchmarks.gpu.first_token --out DIR [--shape qwen3_5_27b] [--backend flashinfer] [--plain] [--document]

Dummy weights in the shape of a real model; what is read and said means nothing, what it costs does. Every figure is the
median over `--repeats` of its own prompts, each read once. "Without" is the same server with the memory turned off for
the request, or with `--plain` a second server beside it that has no plugin. For the document, "without" is a question
asked two seconds after another document of that length, "with" one asked right behind it, and the bound is on the
difference; either is the first about its document, whose span no prefix cache has yet.
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.checkpoints import SHAPES, dummy_v14_directory
from benchmarks.gpu.servers import GraphCount, machine, server_of
from tests.serving import stream, turn
from tests.tiny import turns_of
from v14.check.server import Server

HEAD_TOKENS = 37
RECALLED_TOKENS = 512
PROMPTS = (64, 256, 2048)
DECODED_TOKENS = 256
BATCHES = (1, 8)
DOCUMENT_TOKENS = 9442
STORED_S = 2.0
"""After so long a document is stored."""
ARGUMENTS = (
    *("--load-format", "dummy", "--mem-fraction-static", "0.85"),
    *("--max-running-requests", "8", "--max-mamba-cache-size", "64", "--cuda-graph-max-bs-prefill", "1024"),
)
NOTHING_BOUND, RECALLED_BOUND, DECODE_BOUND, DOCUMENT_BOUND_S, GRAPHS_BOUND = 1.15, 1.8, 0.97, 0.05, 1.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure without and with memory (seconds, tokens a second, or a share of 1); `ratio` is memory to plain."""

    figure: str
    plain: float
    memory: float
    ratio: float
    bound: float
    holds: bool


class Bench:
    """Prompts against a server with memory and one without, which may be the same."""

    def __init__(
        self, memory: Server, plain: Server, model_dir: Path, repeats: int, document_tokens: int = DOCUMENT_TOKENS
    ) -> None:
        self._memory, self._plain, self._model_dir, self._repeats = memory, plain, model_dir, repeats
        self.document_tokens = document_tokens
        self._seed = 1000
        self.graphs: dict[str, Counter[str]] = {"off": Counter(), "read": Counter()}

    def tell(self) -> None:
        """Fill namespace `told` with what is to be recalled, `seen` with a text that every prompt has anyway."""
        head = turn(self._model_dir, "system", HEAD_TOKENS, seed=1)
        self._ask(self._memory, head + turn(self._model_dir, "user", RECALLED_TOKENS, seed=2), "write", "told")
        self._ask(self._memory, head + self._known(), "write", "seen")

    def first_token(self, num_tokens: int, namespace: str, num_recalled: int) -> tuple[float, float]:
        """Medians of the seconds to the first token, without and with memory."""
        plain, memory = [], []
        for _ in range(self._repeats + 1):
            plain.append(self._seconds(self._plain, num_tokens, "off", namespace, 0))
            memory.append(self._seconds(self._memory, num_tokens, "read", namespace, num_recalled))
        # The first of each only warms up.
        return statistics.median(plain[1:]), statistics.median(memory[1:])

    def decode(self, batch: int) -> tuple[float, float]:
        """Medians of each stream's tokens a second while all `batch` decode, without and with memory."""
        speeds: dict[str, list[float]] = {"off": [], "read": []}
        for _ in range(self._repeats):
            for mode, server, recalled in (("off", self._plain, 0), ("read", self._memory, RECALLED_TOKENS)):
                counted = GraphCount(server)
                with ThreadPoolExecutor(batch) as pool:
                    prompts = [self._prompt(64) for _ in range(batch)]
                    asked = [pool.submit(self._ask, server, p, mode, "told", recalled, DECODED_TOKENS) for p in prompts]
                    speeds[mode].append(_speed([future.result()[1:] for future in asked]))
                self._count(mode, counted)
        return statistics.median(speeds["off"]), statistics.median(speeds["read"])

    def share_in_graphs(self, phase: str, mode: str) -> float:
        """Of the passes so far with that mode."""
        counted = self.graphs[mode]
        return counted[f"{phase} in_graphs"] / max(1, counted[f"{phase} passes"])

    def document(self) -> tuple[float, float]:
        """Medians of the seconds to the first token of a first question, asked once its document is stored, and right
        behind it."""
        seconds: dict[float, list[float]] = {0.0: [], STORED_S: []}
        head = turn(self._model_dir, "system", HEAD_TOKENS, seed=1)
        for number in range(2 * self._repeats):
            rest_s = STORED_S if number % 2 else 0.0
            namespace, prompt = f"document {number}", self._prompt(64)
            text = turn(self._model_dir, "user", self.document_tokens - HEAD_TOKENS, seed=100 + number)
            self._ask(self._memory, head + text, "write", namespace, num_tokens=1)
            time.sleep(rest_s)
            seconds[rest_s].append(self._first(self._ask(self._memory, prompt, "read", namespace, None)))
            time.sleep(STORED_S)
        return statistics.median(seconds[STORED_S]), statistics.median(seconds[0.0])

    def _seconds(self, server: Server, num_tokens: int, mode: str, namespace: str, recalled: int) -> float:
        counted = GraphCount(server)
        seconds = self._first(self._ask(server, self._prompt(num_tokens), mode, namespace, recalled))
        self._count(mode, counted)
        return seconds

    def _count(self, mode: str, counted: GraphCount) -> None:
        time.sleep(0.05)  # the last lines of the log
        for phase, passes in counted.read().items():
            for name, number in passes.items():
                self.graphs[mode][f"{phase} {name}"] += number

    @staticmethod
    def _first(parts: list[tuple[float, int]]) -> float:
        (begun, _), (first, _), *_ = parts
        return first - begun

    def _known(self) -> list[int]:
        return turn(self._model_dir, "user", 20, seed=3)

    def _prompt(self, num_tokens: int) -> list[int]:
        """A prompt whose new part has `num_tokens`, the text of `seen` among them, like no prompt before it."""
        self._seed += 1
        known, opening = self._known(), list(turns_of(self._model_dir).openings["assistant"])
        rest = turn(self._model_dir, "user", num_tokens - len(known) - len(opening), seed=self._seed)
        return turn(self._model_dir, "system", HEAD_TOKENS, seed=1) + known + rest + opening

    def _ask(
        self,
        server: Server,
        ids: list[int],
        mode: str,
        namespace: str,
        recalled: int | None = 0,
        num_tokens: int = 2,
    ) -> list[tuple[float, int]]:
        """When the request was sent and when each part of the reply came, with the number of tokens there were then.

        Raises `RuntimeError` if not `recalled` tokens (None: some) were recalled.
        """
        meta: dict[str, Any] = {}
        parts = [(time.perf_counter(), 0)]
        for part in stream(server, ids, num_tokens=num_tokens, mode=mode, namespace=namespace):
            meta = part["meta_info"]
            parts.append((time.perf_counter(), meta["completion_tokens"]))
        found = sum(event["num_tokens"] for event in meta.get("v14", {}).get("recalled", ()))
        if (found != recalled and not (recalled is None and found)) or parts[-1][1] != num_tokens:
            raise RuntimeError(f"{found} tokens recalled instead of {recalled}: {str(meta)[:300]}")
        return parts


def _speed(streams: list[list[tuple[float, int]]]) -> float:
    """Tokens a second of one stream, from when all have begun until the first ends."""
    begin, end = max(parts[0][0] for parts in streams), min(parts[-1][0] for parts in streams)
    if end <= begin:
        raise RuntimeError("the streams did not run beside each other; decode more tokens")
    within = [[tokens for at, tokens in parts if begin <= at <= end] for parts in streams]
    return sum(tokens[-1] - tokens[0] for tokens in within) / len(streams) / (end - begin)


def rows_of(bench: Bench, say: Callable[[str], None] = lambda figure: None) -> list[Row]:
    """All figures; `say` is told what is measured next."""
    rows = []
    for name, namespace, recalled, bound in (
        ("nothing", "seen", 0, NOTHING_BOUND),
        (f"{RECALLED_TOKENS} tokens", "told", RECALLED_TOKENS, RECALLED_BOUND),
    ):
        for num_tokens in PROMPTS:
            figure = f"first token, {name} recalled, {num_tokens}-token prompt, s"
            say(figure)
            plain, memory = bench.first_token(num_tokens, namespace, recalled)
            rows.append(_row(figure, plain, memory, bound, at_most=True))
    for batch in BATCHES:
        figure = f"decode with {RECALLED_TOKENS} recalled tokens, batch {batch}, tokens/s"
        say(figure)
        rows.append(_row(figure, *bench.decode(batch), DECODE_BOUND, at_most=False))
    for phase in ("prefill", "decode"):
        shares = [bench.share_in_graphs(phase, mode) for mode in ("off", "read")]
        rows.append(_row(f"{phase} passes in CUDA graphs, share", *shares, GRAPHS_BOUND, at_most=False))
    return [*rows, document_row(bench, say)]


def document_row(bench: Bench, say: Callable[[str], None] = lambda figure: None) -> Row:
    """What a document costs the request right behind it: the bound is on the difference."""
    figure = f"first token right behind a {bench.document_tokens}-token document and later, s"
    say(figure)
    later, behind = bench.document()
    holds = behind - later <= DOCUMENT_BOUND_S
    return Row(figure=figure, plain=later, memory=behind, ratio=behind / later, bound=DOCUMENT_BOUND_S, holds=holds)


def _row(figure: str, plain: float, memory: float, bound: float, *, at_most: bool) -> Row:
    ratio = memory / plain if plain else float(memory == plain)
    holds = ratio <= bound if at_most else ratio >= bound
    return Row(figure=figure, plain=plain, memory=memory, ratio=ratio, bound=bound, holds=holds)


def _parts(log: str) -> dict[str, float]:
    """Medians of the milliseconds that the parts of requests took, from the server's log (`SGLANG_V14_PROFILE`)."""
    found: dict[str, list[float]] = {}
    for part, spent in re.findall(r"(\w+)_ms=([\d.]+)", "\n".join(re.findall(r"profile request=.*", log))):
        found.setdefault(part, []).append(float(spent))
    return {part: statistics.median(spent) for part, spent in found.items()}


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shape", default="qwen3_5_27b", choices=SHAPES)
    parser.add_argument("--backend", default="flashinfer", choices=["triton", "flashinfer"])
    parser.add_argument("--reinstate", default="reread", choices=["kv", "reread", "auto"])
    parser.add_argument("--engram-rank", type=int, default=0, help="kept of what events do to recurrent states")
    parser.add_argument("--kv-cache-dtype", default="fp8_e4m3", help="of SGLang, on a GPU")
    parser.add_argument("--document-tokens", type=int, default=DOCUMENT_TOKENS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--document", action="store_true", help="the document's row alone")
    parser.add_argument("--plain", action="store_true", help="a second server without the plugin, on the same device")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as base, ExitStack() as stack:
        options = {"reinstate": arguments.reinstate, "engram_rank": arguments.engram_rank, "write_generated": False}
        model_dir = dummy_v14_directory(arguments.shape, Path(base) / "model", **options)

        def serve(name: str, **environment: str) -> Server:
            environment = {"SGLANG_V14_PROFILE": "1", **environment}
            kv = ("--kv-cache-dtype", arguments.kv_cache_dtype) if torch.cuda.is_available() else ()
            home = Path(base) / name
            server = server_of(model_dir, home, *ARGUMENTS, *kv, backend=arguments.backend, **environment)
            stack.enter_context(server).start()
            return server

        begun = time.monotonic()
        memory = serve("memory")
        plain = serve("plain", SGLANG_V14_MEMORY="0") if arguments.plain else memory
        print(f"started in {time.monotonic() - begun:.0f} s", flush=True)
        try:
            bench = Bench(memory, plain, model_dir, arguments.repeats, arguments.document_tokens)
            if arguments.document:
                rows = [document_row(bench)]
            else:
                bench.tell()
                rows = rows_of(bench, lambda figure: print(figure, flush=True))
        finally:
            (arguments.out / "memory.log").write_bytes(memory.log.read_bytes()[-2_000_000:])
    parts = _parts((arguments.out / "memory.log").read_text(errors="replace"))
    print("parts of a request, medians in ms:", "  ".join(f"{part} {spent:.2f}" for part, spent in parts.items()))
    how = f"{arguments.reinstate}, rank {arguments.engram_rank}, KV {arguments.kv_cache_dtype}"
    print(f"\n{machine()['machine']}, {arguments.shape}, {arguments.backend}, {how}")
    for row in rows:
        mark = "holds" if row.holds else "DOES NOT HOLD"
        print(f"{row.figure:<60}{row.plain:>9.4f}{row.memory:>9.4f}{row.ratio:>8.3f}  bound {row.bound:<5} {mark}")
    result = {
        **machine(),
        **vars(arguments),
        "out": "",
        "rows": [asdict(row) for row in rows],
        "graphs": bench.graphs,
        "parts_ms": parts,
    }
    (arguments.out / f"first_token-{arguments.shape}.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
