"""Hybrid models in a real server: recurrent states in the prefix cache, over several turns, beside each other."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.hybrid_serving import EXTRA_BUFFER, serving_of
from tests.one_server import IN_CHUNKS, Served, served
from tests.serving import distributions, flush_cache, generate, turn
from tests.tiny import tiny_checkpoint, tiny_v14, turns_of
from v14.types import MAX_EVENT_TOKENS

pytestmark = pytest.mark.engine

SERVED = IN_CHUNKS
FAMILY = SERVED.family


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the engine keeps states; `tolerance` is on log-probabilities, `from_end` whether a turn goes on exactly where
    the one before it ended."""

    case: Served
    tolerance: float = 1e-4
    from_end: bool = True


SETTINGS = {
    "no_buffer": Setting(case=IN_CHUNKS),
    "extra_buffer": Setting(case=served(FAMILY, arguments=(*IN_CHUNKS.arguments, *EXTRA_BUFFER)), from_end=False),
    "bfloat16": Setting(
        case=served(FAMILY, arguments=(*IN_CHUNKS.arguments, "--mamba-ssm-dtype", "bfloat16")), tolerance=5e-2
    ),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(setting, id=name, marks=() if setting.case == IN_CHUNKS else pytest.mark.slow)
        for name, setting in SETTINGS.items()
    ],
)
def setting(request):
    return request.param


@pytest.fixture(scope="module")
def server(setting, one_server):
    return one_server.of(setting.case)


@pytest.fixture(scope="module")
def checkpoint():
    return tiny_checkpoint(FAMILY)


@pytest.fixture(scope="module")
def head(checkpoint):
    return turn(checkpoint, "system", 150, seed=1)


def asked(checkpoint, seed, num_tokens=30):
    return [*turn(checkpoint, "user", num_tokens, seed=seed), *turns_of(checkpoint).openings["assistant"]]


def difference(one, other, num_tokens=None):
    rows = list(zip(distributions(one), distributions(other), strict=True))[:num_tokens]
    return max(abs(a[token] - b[token]) for a, b in rows for token in a)


def test_an_empty_memory_changes_nothing(server, checkpoint, head):
    prompt = head + asked(checkpoint, 7, 200)
    remembering = generate(server, prompt, logprobs=True, namespace="empty", mode="both")
    flush_cache(server)
    without = generate(server, prompt, logprobs=True, namespace="empty", mode="off")
    assert distributions(remembering) == distributions(without)


def test_a_conversation_keeps_its_spans_and_its_cached_prefix(server, setting, checkpoint, head):
    told = [token for seed in (20, 21) for token in turn(checkpoint, "user", 50, seed=seed)]
    generate(server, head + told, namespace="talk")
    flush_cache(server)

    first = head + asked(checkpoint, 22)
    one = generate(server, first, logprobs=True, namespace="talk")
    assert [event["num_tokens"] for event in one["meta_info"]["v14"]["recalled"]] == [50, 50]
    second = [*first, *one["output_ids"], *turns_of(checkpoint).closing, *asked(checkpoint, 23)]
    two = generate(server, second, logprobs=True, namespace="talk")
    third = [*second, *two["output_ids"], *turns_of(checkpoint).closing, *asked(checkpoint, 24)]
    three = generate(server, third, logprobs=True, namespace="talk")

    for prompt, reply in ((first, one), (second, two), (third, three)):
        read = [*head, *told, *prompt[len(head) :]]
        plain = generate(server, read, logprobs=True, namespace="talk", mode="off")
        assert difference(reply, plain) < setting.tolerance
    # Each turn begins where the one before it ended: nothing of the conversation is read again, spans included.
    for prompt, reply in ((first, two), (second, three)):
        assert reply["meta_info"]["cached_tokens"] >= (len(prompt) if setting.from_end else len(head))


def test_a_span_stands_at_the_very_beginning(server, setting, checkpoint):
    told = turn(checkpoint, "user", 70, seed=50)
    generate(server, told, namespace="no head")
    flush_cache(server)
    recalled = generate(server, asked(checkpoint, 51), logprobs=True, namespace="no head")
    assert recalled["meta_info"]["v14"]["recalled"]
    read = generate(server, told + asked(checkpoint, 51), logprobs=True, namespace="no head", mode="off")
    assert difference(recalled, read) < setting.tolerance


def test_a_long_prompt_that_recalls_nothing_is_read_once(server, setting, checkpoint, head):
    prompt = head + asked(checkpoint, 70, 200)
    generate(server, prompt, namespace="long")
    flush_cache(server)
    # All that the namespace holds stands in the prompt itself.
    reply = generate(server, prompt, logprobs=True, namespace="long", mode="read")
    assert reply["meta_info"]["v14"]["recalled"] == []
    assert reply["meta_info"]["cached_tokens"] == 0
    plain = generate(server, prompt, logprobs=True, namespace="long", mode="off")
    assert difference(reply, plain) < setting.tolerance


def test_requests_beside_each_other_keep_their_states_apart(server, setting, checkpoint, head):
    def run(number, order):
        namespace = f"{order} {number}"
        generate(server, head + turn(checkpoint, "user", 40 + 9 * number, seed=number), namespace=namespace)
        return generate(server, head + asked(checkpoint, 30 + number), logprobs=True, namespace=namespace)

    alone = [run(number, "alone") for number in range(6)]
    flush_cache(server)
    with ThreadPoolExecutor(6) as threads:
        together = list(threads.map(lambda number: run(number, "together"), range(6)))
    for one, other in zip(alone, together, strict=True):
        assert one["meta_info"]["v14"]["recalled"]
        assert one["output_ids"] == other["output_ids"]
        assert difference(one, other) < setting.tolerance


@pytest.mark.slow
def test_engrams_outlive_the_server_and_without_them_states_stay(tmp_path_factory, checkpoint, head):
    place = tmp_path_factory.mktemp("ranks")
    told = turn(checkpoint, "user", 90, seed=60)
    read = head + told + asked(checkpoint, 61)
    for rank in (MAX_EVENT_TOKENS, 0):
        model_dir = tiny_v14(FAMILY, place / f"model {rank}", write_generated=False, engram_rank=rank)
        with serving_of(FAMILY, model_dir, place / f"memory {rank}") as server:
            generate(server, head + told)
            server.stop()
            server.start()
            recalled = generate(server, head + asked(checkpoint, 61), logprobs=True)
            plain = generate(server, read, logprobs=True, mode="off")
            bare = generate(server, head + asked(checkpoint, 61), logprobs=True, mode="off")
            assert server.tracebacks() == 0
        # What the usage leaves out is the span: the head is cached, and so is the span where it was placed.
        assert recalled["meta_info"]["cached_tokens"] == len(head)
        if rank:
            assert difference(recalled, plain) < 1e-4
        else:
            # Keys and values stand there, states do not know of them: neither what was read nor nothing at all.
            assert difference(recalled, plain, num_tokens=1) > 1e-3
            assert difference(recalled, bare, num_tokens=1) > 1e-3


@pytest.mark.slow
def test_auto_tries_both_ways_and_both_are_exact(tmp_path_factory, checkpoint):
    place = tmp_path_factory.mktemp("auto")
    short = turn(checkpoint, "system", 9, seed=1)
    told = turn(checkpoint, "user", 90, seed=80)
    options = {"reinstate": "auto", "engram_rank": MAX_EVENT_TOKENS}
    model_dir = tiny_v14(FAMILY, place / "model", write_generated=False, **options)
    placed = []
    with serving_of(FAMILY, model_dir, place / "memory") as server:
        for number in range(4):
            namespace = f"auto {number}"
            generate(server, short + told, namespace=namespace)
            flush_cache(server)
            recalled = generate(server, short + asked(checkpoint, 81), logprobs=True, namespace=namespace)
            read = generate(
                server, short + told + asked(checkpoint, 81), logprobs=True, namespace=namespace, mode="off"
            )
            assert difference(recalled, read) < 1e-4
            # A span that was read again is not cached, and the usage takes its tokens off the head's.
            placed.append(recalled["meta_info"]["cached_tokens"] == len(short))
        assert server.tracebacks() == 0
    assert placed[:2] == [True, False]
