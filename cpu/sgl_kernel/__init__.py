"""Stand-in for the CPU build of sgl-kernel, which no package index carries.

Every name can be imported. What SGLang calls on a CPU for the models that are tested here is written in plain PyTorch
(`operators.py`, `mamba.py`, and `state_space.py` for `sglang_without_triton.py`); calling anything else raises
`NotImplementedError` naming it.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from sgl_kernel import operators as operators


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    row_len: int,
) -> None:
    """Write each request's new KV slots, concatenated in `out_cache_loc`, into its row of `req_to_token`."""
    taken = 0
    rows = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True)
    for row, start, end in rows:
        req_to_token[row, start:end] = out_cache_loc[taken : taken + end - start].to(req_to_token.dtype)
        taken += end - start


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name} has no CPU stand-in; it needs the real sgl-kernel")

    missing.__name__ = name
    return missing
