"""An empty memory changes nothing that SmolLM2-135M-Instruct says. Needs what `make demo` makes; `make test-slow`."""

from pathlib import Path

import pytest

from tests.serving import serving
from v14.check.client import ChatClient
from v14.check.data import lines

pytestmark = [pytest.mark.engine, pytest.mark.slow]

DEMO = Path(__file__).parents[3] / ".demo"
CHECKPOINT = DEMO / "SmolLM2-135M-Instruct"
DIRECTORY = DEMO / "SmolLM2-135M-Instruct-V14"
NUM_PROMPTS = 20
NUM_TOKENS = 32


@pytest.mark.skipif(not DIRECTORY.exists(), reason="needs .demo: run `make demo` first")
def test_an_empty_memory_answers_as_sglang_without_the_plugin(tmp_path):
    openings = list(lines("chats"))[:NUM_PROMPTS]
    assert len(openings) == NUM_PROMPTS

    def replies(server, memory):
        return [
            ChatClient(url=server.url, namespace=f"n{number}")
            .chat([{"role": "user", "content": text}], max_tokens=NUM_TOKENS, memory=memory)
            .text
            for number, text in enumerate(openings)
        ]

    with serving(CHECKPOINT, tmp_path / "plain", SGLANG_PLUGINS="none") as server:
        plain = replies(server, "off")
    with serving(DIRECTORY, tmp_path / "memory") as server:
        assert replies(server, "read") == plain
        assert replies(server, "both") == plain
        assert server.tracebacks() == 0
