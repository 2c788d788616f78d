"""The law of exactness in bf16 on a real GPU, with CUDA graphs and overlap scheduling. `make test-gpu`."""

import pytest
import torch

from benchmarks.gpu.checkpoints import FAMILIES
from benchmarks.gpu.exactness import measure

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.engine,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("mode", ["kv", "reread"])
@pytest.mark.parametrize("family", FAMILIES)
def test_recalled_equals_read_as_far_as_plain_sglang_equals_itself(family, mode, tmp_path):
    row = measure(family, mode, "triton", tmp_path)
    assert row.error == ""
    assert row.holds, row
    for phase in ("prefill", "decode"):
        off, on = (row.graphs[memory][phase] for memory in ("off", "on"))
        assert on["in_graphs"] * off["passes"] >= off["in_graphs"] * on["passes"], row.graphs
