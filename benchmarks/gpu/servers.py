"""Servers for measurements: arguments that start fast, what their log tells about graphs, versions for the record."""

import importlib.metadata
import platform
import re
from pathlib import Path
from typing import Any

import torch

from v14.check.server import Server

ON_GPU = (
    *("--max-total-tokens", "32768", "--context-length", "16384", "--max-running-requests", "16"),
    *("--cuda-graph-max-bs-decode", "8", "--cuda-graph-max-bs-prefill", "2048", "--mem-fraction-static", "0.7"),
    *("--max-mamba-cache-size", "96", "--grammar-backend", "none", "--random-seed", "14"),
)
"""A small pool and few graphs: what is measured here does not depend on them, and starting takes a minute less."""

ON_CPU = (
    *("--dtype", "float32", "--context-length", "4096", "--max-running-requests", "8", "--random-seed", "14"),
    *("--max-mamba-cache-size", "64", "--mamba-radix-cache-strategy", "no_buffer", "--disable-overlap-schedule"),
)

_GRAPH_LINE = re.compile(r"(Prefill|Decode) batch.* graph: (True|False)")


def server_of(model_dir: Path, home: Path, *arguments: str, backend: str = "triton", **environment: str) -> Server:
    """A server that is not started yet; every decode step is logged, so that its log counts graphs."""
    on_gpu = torch.cuda.is_available()
    return Server(
        model_dir=model_dir,
        home=home,
        log=home.parent / f"{home.name}.log",
        arguments=(
            *(("--attention-backend", backend, *ON_GPU) if on_gpu else ON_CPU),
            *("--decode-log-interval", "1", *arguments),
        ),
        environment=environment,
        start_timeout_s=500,
    )


class GraphCount:
    """Forward passes logged since this object was made: how many there were, and how many ran in a CUDA graph."""

    def __init__(self, server: Server) -> None:
        self._log = server.log
        self._from = server.log.stat().st_size

    def read(self) -> dict[str, dict[str, int]]:
        """`{"prefill": {"passes", "in_graphs"}, "decode": …}`."""
        with self._log.open("rb") as log:
            log.seek(self._from)
            lines = _GRAPH_LINE.findall(log.read().decode(errors="replace"))
        return {
            phase.lower(): {
                "passes": sum(name == phase for name, _ in lines),
                "in_graphs": sum((name, used) == (phase, "True") for name, used in lines),
            }
            for phase in ("Prefill", "Decode")
        }


def machine() -> dict[str, Any]:
    """Hardware and versions, for the record."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    versions = {name: _version(name) for name in ("sglang", "torch", "transformers", "triton", "flashinfer-python")}
    return {"machine": gpu or f"{platform.machine()} CPU", "python": platform.python_version(), "versions": versions}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
