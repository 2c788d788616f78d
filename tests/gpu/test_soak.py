"""Clients that come and go on a real GPU: overlap scheduling, CUDA graphs, too small a pool. `make test-gpu`."""

import pytest
import torch

from benchmarks.gpu.checkpoints import v14_directory
from benchmarks.gpu.servers import server_of
from tests.soak import come_and_go
from v14.types import MAX_EVENT_TOKENS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.engine,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SECONDS = 60.0


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_clients_that_come_and_go_leave_nothing_behind(family, tmp_path):
    model_dir = v14_directory(family, tmp_path / "model", recall_max_events=4, engram_rank=MAX_EVENT_TOKENS)
    with server_of(model_dir, tmp_path / "memory", "--max-total-tokens", "6000") as server:
        server.start()
        print(f"{come_and_go(server, model_dir, SECONDS)} requests")
