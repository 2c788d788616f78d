"""Two laws of recall while a reply is written, through SGLang's real model runner.

What is recalled: the tokens that follow have the logits of the same sequence read as text at once. Where nothing is
recalled, the reply is the same to the bit.
"""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.hybrid_serving import serving_of
from tests.one_server import DECODING, LOOKING, served
from tests.serving import distributions, flush_cache, generate, turn
from tests.tiny import HYBRIDS, tiny_checkpoint, tiny_v14, turns_of
from v14.engines.sglang.reading import FIRST_LOOK

pytestmark = pytest.mark.engine

NUM_TOKENS = 3 * FIRST_LOOK + 24
LENGTHS = (60, 20)
"""Turns that are told, each an event: by its length a test knows one from another."""

SLOWLY = tuple(
    served(family, reinstate, options=LOOKING, SGLANG_V14_TRACE="1")
    for family, reinstate in (
        ("qwen3_5", "kv"),
        ("llama", "reread"),
        ("gemma3", "kv"),
        ("qwen3_moe", "kv"),
        ("nemotron_h", "kv"),
        ("lfm2", "kv"),
        ("qwen3_5", "reread"),
    )
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(DECODING, id=DECODING.name),
        *(pytest.param(case, id=case.name, marks=pytest.mark.slow) for case in SLOWLY),
    ],
)
def serves(request, one_server):
    """A server that recalls one event with each look, whatever it is."""
    case = request.param
    reinstate = dict(case.options)["reinstate"]
    way = "engrams" if case.family in HYBRIDS and reinstate == "kv" else reinstate
    return tiny_checkpoint(case.family), one_server.of(case), way


def largest_difference(one, other):
    assert one
    assert [sorted(row) for row in one] == [sorted(row) for row in other]
    return max(abs(a[token] - b[token]) for a, b in zip(one, other, strict=True) for token in a)


def test_what_follows_is_as_read_at_once(serves):
    """A trace is of the context that its event was read in, so both events are read where they come to stand."""
    checkpoint, server, way = serves
    opening = list(turns_of(checkpoint).openings["assistant"])
    head = turn(checkpoint, "system", 9, seed=1)

    def ask(seed):
        """A question in a namespace of its own, and the turns told there: what comes first, and what comes later."""
        question = turn(checkpoint, "user", 23, seed=100 + seed)
        told = [turn(checkpoint, "user", length, seed=seed) for length in LENGTHS]
        namespace = f"law {seed}"
        generate(server, [*head, *told[0], *question, *told[1]], mode="write", namespace=namespace)
        flush_cache(server)
        prompt = head + question + opening
        reply = generate(server, prompt, num_tokens=2 * FIRST_LOOK, logprobs=True, mode="read", namespace=namespace)
        assert reply["meta_info"]["prompt_tokens"] == len(prompt)
        return told, question, reply

    # Which of the two a prompt recalls is up to the random weights.
    asked = (ask(seed) for seed in range(12))
    told, question, reply = next(
        found for found in asked if found[2]["meta_info"]["v14"]["recalled"][0]["num_tokens"] == LENGTHS[0]
    )
    written, found = reply["output_ids"], distributions(reply)
    assert len(written) == len(found) == 2 * FIRST_LOOK
    [later] = reply["meta_info"]["v14"]["while_decoding"]
    assert [event["num_tokens"] for event in later["recalled"]] == [LENGTHS[1]]
    at = later["at"]
    assert FIRST_LOOK <= at < FIRST_LOOK + 4

    def read(*parts):
        ids = [token for part in (head, *parts, opening, written[:at]) for token in part]
        return distributions(generate(server, ids, logprobs=True, mode="off", namespace="law"))

    assert largest_difference(found[at : at + 4], read(told[0], question, told[1])) < 1e-4
    # Without this the law would hold for a span that nobody looks at.
    assert largest_difference(found[at : at + 1], read(told[0], question)[:1]) > 1e-2
    assert server.tracebacks() == 0
    [event] = [event["id"] for event in later["recalled"]]
    stood = {
        "kv": f"way=kv events=[{event}] composed=[]",
        "reread": f"way=reread events=[{event}] composed=[]",
        "engrams": f"way=kv events=[{event}] composed=[{event}]",
    }
    assert stood[way] in server.log.read_text()


def decisions(server):
    """How many there were, on prompts and on looks."""
    return len(re.findall(r"trace request=\S+ namespace=\S+ votes=", server.log.read_text()))


@pytest.mark.parametrize("family", ["llama", pytest.param("qwen3_5", marks=pytest.mark.slow)])
def test_a_reply_that_recalls_nothing_is_the_same_to_the_bit(family, tmp_path):
    checkpoint = tiny_checkpoint(family)
    opening = list(turns_of(checkpoint).openings["assistant"])
    model_dir = tiny_v14(
        family, tmp_path / "model", write_generated=False, recall_while_decoding=True, recall_floor=1e9
    )

    def asked(server, seed, mode, logprobs=True):
        prompt = turn(checkpoint, "user", 12 + 7 * seed, seed=seed) + opening
        reply = generate(server, prompt, num_tokens=NUM_TOKENS, logprobs=logprobs, mode=mode)
        return reply["output_ids"], distributions(reply) if logprobs else []

    with serving_of(family, model_dir, tmp_path / "memory", SGLANG_V14_TRACE="1") as server:
        generate(server, turn(checkpoint, "user", 40, seed=3), mode="write")
        for seed in range(2):
            assert asked(server, seed, "read") == asked(server, seed, "off")
        assert decisions(server) == 3 * 2

        def tokens(arguments):
            return asked(server, *arguments, False)

        # Beside each other, and while others are read, batches differ; the tokens do not.
        with ThreadPoolExecutor(6) as threads:
            looking, plain = (
                list(threads.map(tokens, [(seed, mode) for seed in range(6)])) for mode in ("read", "off")
            )
        assert looking == plain
        assert decisions(server) == 3 * 8
        assert server.tracebacks() == 0
