"""A real model that was told something answers it, forgets it, and does not know it. Needs what `make demo` makes, or
MODEL=… that names another directory."""

import os
import random
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tests.process_memory import RUN, finds, scheduler_of
from tests.serving import post, serving
from v14.check.client import ChatClient

pytestmark = [pytest.mark.engine, pytest.mark.slow]

DIRECTORY = Path(os.environ.get("MODEL") or Path(__file__).parents[3] / ".demo" / "SmolLM2-135M-Instruct-V14")
NUM_FACTS = 6
PLACES = ("kitchen", "cellar", "attic", "garage", "office", "garden shed")


@pytest.mark.skipif(not DIRECTORY.exists(), reason=f"no {DIRECTORY}: `make demo` makes it, MODEL=… names another")
def test_a_fact_is_answered_forgotten_and_not_answered(tmp_path):
    rng = random.Random(14)
    codes = [str(rng.randrange(10_000, 99_999)) for _ in range(NUM_FACTS)]
    tokenizer = AutoTokenizer.from_pretrained(DIRECTORY)
    with serving(DIRECTORY, tmp_path / "memory") as server:
        pid = scheduler_of(server._process.pid)

        def chat(text, memory="both"):
            client = ChatClient(url=server.url, namespace="ann")
            return client.chat([{"role": "user", "content": text}], max_tokens=24, memory=memory)

        def answered():
            return [
                code in chat(f"What is the code of the door to the {place}?", "read").text
                for place, code in zip(PLACES, codes, strict=True)
            ]

        facts = [f"The code of the door to the {place} is {code}." for place, code in zip(PLACES, codes, strict=True)]
        for fact in facts:
            chat(fact)
        before = answered()
        needles = [tokenizer(fact, add_special_tokens=False)["input_ids"][1:] for fact in facts]
        found_before = sum(bool(finds(pid, ids)) for ids in needles)
        done = post(server, "/v14/forget", {"everything": True}, X_V14_Namespace="ann")
        left = [place for ids in needles for place in finds(pid, ids)]
        copies = 2 * sum(len(ids) // RUN for ids in needles)
        after = answered()
        assert server.tracebacks() == 0
    print(f"answered {sum(before)} of {NUM_FACTS}, then {sum(after)}; in memory {found_before}, then {len(left)}")
    assert done["forgotten"] >= NUM_FACTS
    assert sum(before) >= NUM_FACTS - 2
    assert sum(after) == 0
    assert len(left) <= copies
