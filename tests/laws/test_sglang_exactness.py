"""The law of exactness through SGLang's real model runner: reading events and then a prompt in one sequence, against
events read in one request, stored, recalled in another and the prompt read behind their span."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.hf import logits_of, native
from tests.one_server import IN_CHUNKS, PLACED, REREAD, served
from tests.serving import distributions, flush_cache, generate, turn
from tests.tiny import VOCAB_SIZE, tiny_checkpoint, turns_of

pytestmark = pytest.mark.engine

LENGTHS = {"1": [-129], "3": [131], "64": [64], "127": [127], "128": [128], "three in a row": [40, 64, 33]}
"""Turns read before the prompt, by the event length they are about; a negative length is a turn that nothing closes.
129 tokens are an event of 128 and one of 1, 131 end in an event of 3."""
EVENT_LENGTHS = {
    "1": [128, 1],
    "3": [128, 3],
    "64": [64],
    "127": [127],
    "128": [128],
    "three in a row": [40, 64, 33],
}


QUICKLY = (PLACED, served("gemma3"), REREAD, IN_CHUNKS, served("nemotron_h"))
SLOWLY = (
    *map(served, ("qwen2", "qwen3", "mistral", "qwen3_moe", "qwen3_5", "qwen3_5_moe", "lfm2", "lfm2_moe")),
    *(served(family, "reread") for family in ("qwen3_5", "nemotron_h", "lfm2")),
)
"""Of every run: each way, a sliding window, and both kinds of recurrent layers. Starting a server takes longer than its
whole law, and the other families' laws are held by `test_transformers_exactness` in every run."""


@pytest.fixture(
    scope="module",
    params=[
        *(pytest.param(case, id=case.name) for case in QUICKLY),
        *(pytest.param(case, id=case.name, marks=pytest.mark.slow) for case in SLOWLY),
    ],
)
def serves(request, one_server):
    case = request.param
    return tiny_checkpoint(case.family), one_server.of(case), dict(case.options)["reinstate"]


def largest_difference(one, other):
    assert [sorted(row) for row in one] == [sorted(row) for row in other]
    return max(abs(a[token] - b[token]) for a, b in zip(one, other, strict=True) for token in a)


def test_the_engine_computes_what_the_library_does(serves):
    """A prompt, a longer one that begins with it and what was written, and three beside each other."""
    checkpoint, server, _ = serves
    model = native(checkpoint)

    def check(prompt):
        reply = generate(server, prompt, logprobs=True, mode="off", namespace="library")
        written = reply["output_ids"]
        logits = logits_of(model, [*prompt, *written[:-1]])[-len(written) :].log_softmax(-1)
        found = torch.tensor([[row[token] for token in range(VOCAB_SIZE)] for row in distributions(reply)])
        assert (found - logits).abs().max() < 1e-4
        return reply

    prompt = turn(checkpoint, "user", 150, seed=30)
    longer = [*prompt, *check(prompt)["output_ids"], *turn(checkpoint, "user", 40, seed=31)]
    assert check(longer)["meta_info"]["cached_tokens"] >= len(prompt)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(check, [turn(checkpoint, "user", n, seed=n) for n in (12, 65, 130)]))


@pytest.mark.parametrize("case", LENGTHS)
def test_recalled_equals_read(serves, case):
    checkpoint, server, reinstate = serves
    head = turn(checkpoint, "system", 9, seed=1)
    told = [token for seed, n in enumerate(LENGTHS[case]) for token in turn(checkpoint, "user", n, seed=10 + seed)]
    prompt = [*turn(checkpoint, "user", 23, seed=2), *turns_of(checkpoint).openings["assistant"]]

    namespace = f"law {case}"
    generate(server, head + told, namespace=namespace)
    flush_cache(server)
    recalled = generate(server, head + prompt, logprobs=True, namespace=namespace)
    read = generate(server, head + told + prompt, logprobs=True, mode="off", namespace=namespace)
    bare = generate(server, head + prompt, logprobs=True, mode="off", namespace=namespace)

    report = recalled["meta_info"]["v14"]
    assert [event["num_tokens"] for event in report["recalled"]] == EVENT_LENGTHS[case]
    assert recalled["meta_info"]["prompt_tokens"] == len(head + prompt)
    # The usage leaves the span out. A span that was placed is cached; one that was read again is not, and then the
    # head's cached tokens are counted against it.
    assert recalled["meta_info"]["cached_tokens"] == (len(head) if reinstate == "kv" else 0)
    assert largest_difference(distributions(recalled), distributions(read)) < 1e-4
    # Without this the law would hold for a model that looks at nothing.
    assert largest_difference(distributions(bare)[:1], distributions(read)[:1]) > 1e-2
    assert server.tracebacks() == 0
