"""Whether a model on several ranks recalls and answers as on one.

    python -m benchmarks.gpu.ranks DIRECTORY --tp-size 2 [--world hybrid]

Facts are told and asked of one server with `--tp-size 1` and of one with more, each with a memory of its own, and once
more of the second with the store that the first has written. Greedy: the recalled events and the tokens have to be the
same. `--world hybrid` tells and asks in the language of the small hybrids (experiments/tiny_hybrid). Ranks add up in
another order, so log-probabilities differ by rounding, and where the best two tokens are closer than that, another one
may follow; how close they were at the first difference is said.
"""

import argparse
import json
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.servers import server_of
from benchmarks.recall.hybrid_world import HybridWorld
from v14.check.facts import Fact, generate
from v14.check.server import Server

Answer = tuple[list[str], str, list[dict[str, Any]]]
"""Ids of the recalled events, the text, and for each token its name, log-probability and the best of the others."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--tp-size", type=int, default=2)
    parser.add_argument("--world", choices=("english", "hybrid"), default="english")
    parser.add_argument("--facts", type=int, default=12)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--dtype", default="auto" if torch.cuda.is_available() else "float32")
    options = parser.parse_args()
    facts = (hybrid_facts if options.world == "hybrid" else generate)(options.seed, options.facts)
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        one = _answers(options, room / "one", 1, facts, tells=True)
        shutil.copytree(room / "one", room / "written by one")
        several = _answers(options, room / "several", options.tp_size, facts, tells=True)
        other = _answers(options, room / "written by one", options.tp_size, facts, tells=False)
    print(f"{options.directory.name}, {options.dtype}, {len(facts)} questions, seed {options.seed}")
    _compare(f"--tp-size {options.tp_size}, its own store", one, several)
    _compare(f"--tp-size {options.tp_size}, the store of --tp-size 1", one, other)
    print(f"right with --tp-size 1: {_right(facts, one)}, with {options.tp_size}: {_right(facts, several)}")


def hybrid_facts(seed: int, number: int) -> list[Fact]:
    """Facts in the language of the small hybrids."""
    cases = HybridWorld(seed).cases("single fact", number)
    return [
        Fact(statement=case.chats[0].turns[0][1], question=case.question, value=case.accepted[0], paraphrased=False)
        for case in cases
    ]


def _answers(options: argparse.Namespace, home: Path, size: int, facts: Sequence[Fact], *, tells: bool) -> list[Answer]:
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    binding = "|".join([cores] * size)
    arguments = ("--tp-size", str(size), "--dtype", options.dtype, "--context-length", "4096")
    # SGLang asks for as much free memory on every GPU, though these models need next to none.
    environment = {"SGLANG_CPU_OMP_THREADS_BIND": binding, "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "0"}
    server = server_of(options.directory, home, *arguments, **environment)
    with server:
        server.start()
        if tells:
            for fact in facts:
                _chat(server, fact.statement, 1, "both")
        # The first time as people ask; log-probabilities keep a pass from ending early.
        texts = [_chat(server, fact.question, options.tokens, "read") for fact in facts]
        exact = [_chat(server, fact.question, options.tokens, "read", logprobs=True) for fact in facts]
        assert server.tracebacks() == 0, server.log_tail()
    return [
        (_recalled(plain), plain["choices"][0]["message"]["content"], reply["choices"][0]["logprobs"]["content"])
        for plain, reply in zip(texts, exact, strict=True)
    ]


def _chat(server: Server, text: str, num_tokens: int, mode: str, *, logprobs: bool = False) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "default", "messages": [{"role": "user", "content": text}], "temperature": 0}
    body |= {"max_tokens": num_tokens}
    if logprobs:
        body |= {"logprobs": True, "top_logprobs": 2}
    headers = {"Content-Type": "application/json", "X-V14-Memory": mode}
    request = urllib.request.Request(f"{server.url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as reply:
        found: dict[str, Any] = json.loads(reply.read())
        return found


def _recalled(reply: dict[str, Any]) -> list[str]:
    return [event["id"] for event in (reply.get("metadata") or {}).get("v14", {}).get("recalled", [])]


def _compare(name: str, one: Sequence[Answer], other: Sequence[Answer]) -> None:
    recalls = sum(a[0] == b[0] for a, b in zip(one, other, strict=True))
    texts = sum(a[1] == b[1] for a, b in zip(one, other, strict=True))
    tokens, largest = 0, 0.0
    for a, b in zip(one, other, strict=True):
        same = [x["token"] == y["token"] for x, y in zip(a[2], b[2], strict=False)]
        common = same.index(False) if False in same else min(len(a[2]), len(b[2]))
        tokens += common == len(a[2]) == len(b[2])
        for x, y in list(zip(a[2], b[2], strict=False))[:common]:
            largest = max([largest, *_differences(x["top_logprobs"], y["top_logprobs"])])
        if common < min(len(a[2]), len(b[2])):
            best, second = (top["logprob"] for top in a[2][common]["top_logprobs"][:2])
            print(f"{name}: token {common} differs, where the best two are {best - second:.5f} apart")
    print(
        f"{name}: same recalls {recalls}/{len(one)}, same texts {texts}/{len(one)}, same tokens {tokens}/{len(one)}, "
        f"largest difference of a log-probability {largest:.6f}; recalled something {sum(bool(a[0]) for a in one)}"
    )


def _differences(one: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> list[float]:
    """Of the log-probabilities of what is among the best two of both."""
    found = {top["token"]: top["logprob"] for top in other}
    return [abs(top["logprob"] - found[top["token"]]) for top in one if top["token"] in found]


def _right(facts: Sequence[Fact], answers: Sequence[Answer]) -> str:
    right = sum(fact.value.lower() in text.lower() for fact, (_, text, _) in zip(facts, answers, strict=True))
    return f"{right}/{len(facts)}"


if __name__ == "__main__":
    main()
