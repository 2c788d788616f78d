"""An empty memory, and none, answer as SGLang does without the plugin."""

import pytest

from tests.one_server import PLACED
from tests.serving import generate, serving, turn
from tests.tiny import tiny_checkpoint, tiny_v14, turns_of

pytestmark = pytest.mark.engine

SERVED = PLACED
CHECKPOINT = tiny_checkpoint(SERVED.family)
NUM_PROMPTS = 20


def replies(server, **kwargs):
    """To prompts of namespaces in which nothing was ever written."""
    opening = list(turns_of(CHECKPOINT).openings["assistant"])
    head = turn(CHECKPOINT, "system", 9, seed=1)
    return [
        generate(
            server, head + turn(CHECKPOINT, "user", 30, seed=seed) + opening,
            num_tokens=16, namespace=f"never told {seed}", **kwargs,
        )["output_ids"]
        for seed in range(NUM_PROMPTS)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What SGLang replies without the plugin."""
    with serving(CHECKPOINT, tmp_path_factory.mktemp("plain") / "memory", SGLANG_PLUGINS="none") as server:
        return replies(server)


@pytest.mark.slow
def test_no_memory_answers_as_sglang_without_the_plugin(plain, tmp_path):
    with serving(tiny_v14(SERVED.family, tmp_path / "model"), tmp_path / "off", SGLANG_V14_MEMORY="0") as server:
        assert replies(server) == plain
    assert not (tmp_path / "off").exists()


def test_an_empty_memory_answers_as_sglang_without_the_plugin(plain, one_server):
    server = one_server.of(SERVED)
    assert replies(server, mode="read") == plain
    assert replies(server, mode="both") == plain
    assert server.tracebacks() == 0
