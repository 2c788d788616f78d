"""Eight clients tell, ask and hang up for a minute; SGLang's own idle check then finds every KV slot."""

import pytest

from tests.serving import serving
from tests.soak import come_and_go
from tests.tiny import tiny_checkpoint, tiny_v14

pytestmark = [pytest.mark.engine, pytest.mark.slow]

FAMILY = "llama"
SECONDS = 60.0


def test_clients_that_come_and_go_leave_nothing_behind(tmp_path):
    # A small pool: requests are evicted, retracted and wait for each other.
    model_dir = tiny_v14(FAMILY, tmp_path / "model", recall_max_events=4)
    with serving(model_dir, tmp_path / "memory", "--max-total-tokens", "3000") as server:
        print(f"{come_and_go(server, tiny_checkpoint(FAMILY), SECONDS)} requests")
