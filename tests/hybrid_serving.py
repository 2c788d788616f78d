"""Serving tiny V14 directories of any family on a CPU: what hybrid models need beside the other arguments."""

from contextlib import AbstractContextManager
from pathlib import Path

from tests.serving import serving
from tests.tiny import PLAIN
from v14.check.server import Server

EXTRA_BUFFER = ("--mamba-radix-cache-strategy", "extra_buffer")
"""States are kept at every 64th token: SGLang's strategy for GPUs. Without it they are kept where a request ended."""

ENVIRONMENT = {"SGLANG_MAMBA_CONV_DTYPE": "float32", "SGLANG_CPU_EXTRA_BUFFER": "1"}
"""SGLang keeps the convolutions' last inputs in bf16, whatever the model's dtype is, and has no extra buffers on a CPU
(`cpu/sglang_without_triton.py` has)."""


def serving_of(
    family: str, model_dir: Path, home: Path, *arguments: str, **environment: str
) -> AbstractContextManager[Server]:
    """`serving`, with what the family needs to be exact in fp32."""
    if family not in PLAIN:
        environment = ENVIRONMENT | environment
    return serving(model_dir, home, *arguments, **environment)
