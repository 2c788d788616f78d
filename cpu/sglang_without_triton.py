"""Gives SGLang's hybrid models a way to run on a CPU where SGLang has only a Triton kernel.

In its CPU mode (`SGLANG_USE_CPU_ENGINE=1`) SGLang calls plain or `sgl_kernel` operators nearly everywhere. What is left
is replaced here, function by function, when the module that holds it has been imported. Imported by a `.pth` file of
the virtual environment that the Makefile makes.
"""

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_OPS = "sglang.kernels.ops"
_MAMBA = "sglang.srt.layers.attention.mamba"

EXTRA_BUFFER = os.environ.get("SGLANG_CPU_EXTRA_BUFFER") == "1"


def _gated_norm(module: ModuleType) -> None:
    import torch
    from torch.nn import functional

    def layernorm_fn(
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        z: torch.Tensor | None = None,
        eps: float = 1e-6,
        group_size: int | None = None,
        norm_before_gate: bool = True,
        is_rms_norm: bool = False,
        activation: str = "swish",
    ) -> torch.Tensor:
        """RMS norm of `x` in groups of `group_size` with a gate `z` before or behind it."""
        assert is_rms_norm
        assert bias is None
        act = torch.sigmoid if activation == "sigmoid" else functional.silu
        gate = 1.0 if z is None else act(z.float())
        y = x.float() if norm_before_gate else x.float() * gate
        groups = y.unflatten(-1, (-1, group_size or y.shape[-1]))
        y = (groups * torch.rsqrt(groups.square().mean(-1, keepdim=True) + eps)).flatten(-2) * weight.float()
        return (y * gate if norm_before_gate else y).to(x.dtype)

    module.layernorm_fn = module.rms_norm_gated = layernorm_fn  # type: ignore[attr-defined]


def _convolution(module: ModuleType) -> None:
    from sgl_kernel.mamba import causal_conv1d_fn_cpu, causal_conv1d_update_cpu

    # SGLang's Mamba2 layer has names for both kinds of kernel and imports neither on a CPU.
    for suffix in ("", "_triton"):
        setattr(module, f"causal_conv1d_fn{suffix}", causal_conv1d_fn_cpu)
        setattr(module, f"causal_conv1d_update{suffix}", causal_conv1d_update_cpu)


def _state_space(module: ModuleType) -> None:
    from sgl_kernel.state_space import mamba_chunk_scan_combined, selective_state_update

    module.mamba_chunk_scan_combined = mamba_chunk_scan_combined  # type: ignore[attr-defined]
    module.selective_state_update = selective_state_update  # type: ignore[attr-defined]


def _mamba2(module: ModuleType) -> None:
    _convolution(module)
    _state_space(module)


def _shared_expert(module: ModuleType) -> None:
    import torch

    def fused_gate_sigmoid_mul(hidden: torch.Tensor, gate: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
        """The shared expert's output, gated by each token's own hidden state."""
        return (shared.float() * (hidden.float() @ gate.float()).sigmoid()[:, None]).to(shared.dtype)

    def fused_gate_sigmoid_mul_add(
        hidden: torch.Tensor, gate: torch.Tensor, shared: torch.Tensor, out: torch.Tensor
    ) -> None:
        out.add_(fused_gate_sigmoid_mul(hidden, gate, shared))

    module.fused_gate_sigmoid_mul = fused_gate_sigmoid_mul  # type: ignore[attr-defined]
    module.fused_gate_sigmoid_mul_add = fused_gate_sigmoid_mul_add  # type: ignore[attr-defined]


def _tracking(module: ModuleType) -> None:
    import torch

    def track(conv: torch.Tensor, ssm: torch.Tensor, source: Any, mask: Any, target: Any, size: int, **_: Any) -> None:
        """Copy the states of masked requests from their own slots to the ones kept for the prefix cache."""
        rows = mask[:size].nonzero(as_tuple=True)[0]
        for pool in (conv, ssm):
            pool[target[rows].long()] = pool[source[rows].long()]

    def track_all(
        conv: torch.Tensor, ssm: torch.Tensor, source: Any, mask: Any, target: Any, size: int, **_: Any
    ) -> None:
        for layer in range(conv.shape[0]):
            track(conv[layer], ssm[layer], source, mask, target, size)

    if EXTRA_BUFFER:
        # SGLang's masks go to the device through pinned memory, which is there only where there is an accelerator.
        torch.Tensor.pin_memory = lambda tensor: tensor  # type: ignore[assignment,method-assign,misc]
    module.track_mamba_states_if_needed = track  # type: ignore[attr-defined]
    module.track_mamba_states_all_layers = track_all  # type: ignore[attr-defined]


def _checkpoints(module: ModuleType) -> None:
    """SGLang keeps states in extra buffers on accelerators alone; with `_tracking` a CPU can, for tests."""
    if EXTRA_BUFFER:
        module._platform_supports_mamba_cache_extra_buffer = lambda: True  # type: ignore[attr-defined]


_REPLACEMENTS: dict[str, Callable[[ModuleType], None]] = {
    f"{_OPS}.attention.fla.layernorm_gated": _gated_norm,
    f"{_OPS}.elementwise.elementwise": _shared_expert,
    f"{_OPS}.mamba.mamba_state_scatter_triton": _tracking,
    f"{_MAMBA}.causal_conv1d": _convolution,
    "sglang.srt.arg_groups.mamba_hook": _checkpoints,
    f"{_MAMBA}.mamba": _mamba2,
}


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, replace: Callable[[ModuleType], None]) -> None:
        self._loader, self._replace = loader, replace

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._replace(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        replace = _REPLACEMENTS.get(fullname)
        if replace is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, replace)
        return spec


if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
    sys.meta_path.insert(0, _Finder())
