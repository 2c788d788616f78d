"""A model on two ranks (`--tp-size 2`): the same recalls, tokens and log-probabilities as on one, whichever of them
wrote the store, and no failure of the memory on a rank that costs more than a recall."""

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import ranks
from tests.hybrid_serving import serving_of
from tests.serving import distributions, flush_cache, generate, post, stream_and_drop, turn
from tests.tiny import tiny_checkpoint, tiny_v14, turns_of
from v14.cli.recall import fetch as explained

pytestmark = [pytest.mark.engine, pytest.mark.slow]

FAULTY = Path(__file__).parents[2] / "faulty"
SERVED = (("llama", "kv"), ("llama", "auto"), ("qwen2", "reread"), ("qwen3_5", "reread"), ("nemotron_h", "reread"))
TOLD = {"a": (40, 131), "b": (64,), "c": (33, 12, 128)}
"""Lengths of the user's turns in each chat that is told."""


def prompts(checkpoint):
    """A system turn, and a function that makes a chat of user turns behind it."""
    head = turn(checkpoint, "system", 9, seed=1)
    opening = turns_of(checkpoint).openings["assistant"]

    def chat(*lengths, seed, reply=True):
        turns = [token for place, n in enumerate(lengths) for token in turn(checkpoint, "user", n, seed=seed + place)]
        return [*head, *turns, *(opening if reply else ())]

    return chat


def tell(server, chat):
    """All that is told, one chat after the other."""
    for seed, lengths in enumerate(TOLD.values()):
        generate(server, chat(*lengths, seed=100 * seed + 10), namespace="told")


def ask(server, chat):
    """What is recalled, answered and how likely each token was: questions, a second turn, what was told itself."""
    found = []
    first = chat(23, seed=2)
    second = [*first, *turn_of_reply(), *chat(31, seed=3)[9:]]
    for ids in (first, second, chat(150, seed=4), chat(*TOLD["a"], seed=10)):
        reply = generate(server, ids, num_tokens=8, logprobs=True, mode="read", namespace="told")
        report = reply["meta_info"]["v14"]
        story = explained(server.url, report["id"], "told", None)
        found.append(
            {
                "ways": [span["way"] for span in story["spans"]],
                "recalled": [event["id"] for event in report["recalled"]],
                "tokens": reply["output_ids"],
                "values": [vote["value"] for vote in report["votes"]],
                "logprobs": distributions(reply),
            }
        )
    empty = generate(server, first, num_tokens=8, mode="read", namespace="nobody")
    assert not empty["meta_info"]["v14"].get("recalled")
    return found


def turn_of_reply():
    return [500, 501, 502]


def differences(one, other):
    """The largest differences of votes and log-probabilities; recalls and tokens have to be the same.

    Where `auto` chose otherwise, by what it measured, one has an event's own trace and the other its tokens read again,
    which are not the same: what follows is left out.
    """
    same = [a["ways"] == b["ways"] for a, b in zip(one, other, strict=True)]
    alike = same.index(False) if False in same else len(same)
    one, other = one[:alike], other[:alike]
    assert [reply["recalled"] for reply in one] == [reply["recalled"] for reply in other]
    assert [reply["tokens"] for reply in one] == [reply["tokens"] for reply in other]
    votes = [abs(a - b) for x, y in zip(one, other, strict=True) for a, b in zip(x["values"], y["values"], strict=True)]
    rows = [(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x["logprobs"], y["logprobs"], strict=True)]
    return max(votes, default=0), max((abs(a[token] - b[token]) for a, b in rows for token in a), default=0)


@pytest.mark.parametrize("case", SERVED, ids=" ".join)
def test_two_ranks_recall_and_answer_as_one(tmp_path, case):
    family, way = case
    model_dir = tiny_v14(family, tmp_path / "model", reinstate=way, write_generated=False)
    chat = prompts(tiny_checkpoint(family))

    def serving(home, size):
        return serving_of(family, model_dir, tmp_path / home, *ranks.arguments(size), **ranks.environment(size))

    with serving("by one", 1) as server:
        tell(server, chat)
        one = ask(server, chat)
    with serving("by two", 2) as server:
        tell(server, chat)
        two = ask(server, chat)
        assert server.tracebacks() == 0
        shutil.copytree(tmp_path / "by two", tmp_path / "copy of two")
    if way != "auto":
        assert [reply["ways"] for reply in one] == [reply["ways"] for reply in two]
    # What the first turn recalled stands in front of it in the second.
    assert [len(reply["recalled"]) > 0 for reply in one] == [True, False, True, True]
    # The sums of two ranks are added in another order than those of one.
    assert max(differences(one, two)) < 1e-3
    with serving("by one", 2) as server:
        assert max(differences(one, ask(server, chat))) < 1e-3
        assert server.tracebacks() == 0
    with serving("by two", 1) as server:
        assert max(differences(one, ask(server, chat))) < 1e-3


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server on two ranks, a function that makes chats, and the directory that breaks its steps."""
    base = tmp_path_factory.mktemp("ranks")
    model_dir = tiny_v14("llama", base / "model", reinstate="kv", write_generated=False)
    (base / "faults").mkdir()
    path = {"PYTHONPATH": f"{FAULTY}:{os.environ.get('PYTHONPATH', '')}", "FAULTY": str(base / "faults")}
    with serving_of("llama", model_dir, base / "memory", *ranks.arguments(2), **ranks.environment(2), **path) as server:
        yield server, prompts(tiny_checkpoint("llama")), base / "faults"


def recalled(server, ids, namespace):
    reply = generate(server, ids, namespace=namespace, mode="read")
    report = reply["meta_info"].get("v14") or {}
    return [event["num_tokens"] for event in report.get("recalled", ())], reply["output_ids"]


@pytest.mark.parametrize(
    ("step", "rank", "costs"),
    [
        ("opening", 0, "recall"),
        ("opened", 0, "recall"),
        ("opened", 1, "recall"),
        ("cue", 0, "recall"),
        ("cue", 1, "recall"),
        ("decided", 0, "recall"),
        ("again", 0, "recall"),
        ("again", 1, "recall"),
        ("fetch", 0, "nothing"),
        ("fill", 0, "nothing"),
        ("fill", 1, "nothing"),
        ("runs", 0, "writing"),
        ("harvest", 0, "writing"),
        ("harvest", 1, "writing"),
    ],
)
def test_what_fails_on_a_rank_costs_the_memory_alone(served, step, rank, costs):
    server, chat, faults = served
    namespace = f"{step} {rank}"
    told, asked = chat(40, seed=10, reply=False), chat(23, seed=2)
    plain = generate(server, asked, namespace=namespace, mode="off")["output_ids"]
    fault = faults / f"{step} {rank}"
    if costs == "writing":
        fault.touch()
        generate(server, told, namespace=namespace)
        fault.unlink()
        assert recalled(server, asked, namespace) == ([], plain)
    generate(server, told, namespace=namespace)
    flush_cache(server)
    if costs != "writing":
        fault.touch()
        while_broken = recalled(server, asked, namespace)
        fault.unlink()
        flush_cache(server)
    whole = recalled(server, asked, namespace)
    assert whole[0] == [40]
    if costs != "writing":
        # Where a trace cannot be placed, its tokens are read again.
        assert while_broken == (whole if costs == "nothing" else ([], plain))
    assert f"{step} is broken on rank {rank}" in server.log.read_text()


def test_dropped_streams_leave_the_ranks_in_step(served):
    server, chat, _ = served
    with ThreadPoolExecutor(6) as threads:
        for place in range(6):
            namespace = f"dropped {place % 2}"
            threads.submit(stream_and_drop, server, chat(40 + place, seed=200 + place), namespace=namespace)
            threads.submit(generate, server, chat(70, seed=300 + place), num_tokens=24, namespace=namespace)
    for place in range(2):
        assert len(recalled(server, chat(23, seed=2), f"dropped {place}")[0]) >= 6


def test_four_at_once_are_answered_as_alone(served):
    server, chat, _ = served
    for place in range(4):
        generate(server, chat(40 + place, seed=400 + place, reply=False), namespace=f"many {place}")
    alone = [recalled(server, chat(23, seed=500 + place), f"many {place}") for place in range(4)]
    flush_cache(server)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(recalled, server, chat(23, seed=500 + place), f"many {place}") for place in range(4)]
        together = [one.result() for one in asked]
    assert [events for events, _ in alone] == [[40], [41], [42], [43]]
    assert together == alone


def test_what_is_forgotten_is_forgotten_on_every_rank(served):
    server, chat, _ = served
    told, asked = chat(40, 64, seed=10, reply=False), chat(23, seed=2)
    plain = generate(server, asked, namespace="gone", mode="off")["output_ids"]
    generate(server, told, namespace="gone")
    assert sorted(recalled(server, asked, "gone")[0]) == [40, 64]
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(generate, server, asked, num_tokens=2000, mode="read", namespace="gone")
        time.sleep(3)
        gone = post(server, "/v14/forget", {"everything": True}, X_V14_Namespace="gone")
        assert len(running.result()["output_ids"]) < 2000
    assert gone["forgotten"] == 2
    assert recalled(server, asked, "gone") == ([], plain)
    generate(server, told, namespace="gone")
    assert sorted(recalled(server, asked, "gone")[0]) == [40, 64]
