"""What every event of a prefill did to one recurrent layer: error, and time beside the prefill's own.

    python -m benchmarks.engram_kernels [--out FILE] [--sweep] [--tiny]

On a CUDA device, bf16 inputs, for the recurrent layers of Qwen3.5-27B and Nemotron-H 8B over 8,192 tokens. Columns:

    error    largest error of decay, erase and write against `v14.kernels.engram.naive` on the same inputs, relative to
             the largest number of each
    capture  this package's kernel, all events of one layer
    chunk    SGLang's own kernel for the layer's recurrence, on the same inputs (needs sglang)
    matmuls  the layer's projections and its share of MLPs, as plain bf16 products
    share    capture / (chunk + matmuls): a layer's prefill has some more in it, so this is an upper bound
    rank 1   cutting the layer's events to that rank (`v14.engram.compress`), which only a memory with engrams does

`--sweep` times chunk sizes, rows and warps; `--tiny` runs everything once at tiny sizes, also in Triton's interpreter.
"""

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from v14.engram import compress, stack
from v14.engram.gated_delta import normalise
from v14.kernels.engram import Events, naive, triton

SGLANG = {
    "gated_delta": ("sglang.kernels.ops.attention.fla.chunk", "sglang.srt.layers.attention.fla.chunk"),
    "mamba2": ("sglang.kernels.ops.mamba.triton_ops.ssd_combined", "sglang.srt.layers.attention.mamba.ops"),
}
"""Where SGLang keeps its chunk kernels, newest place first."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One recurrent layer; `weights` are the (in, out) sizes of the products that a token passes beside it."""

    name: str
    kind: str
    heads: int
    groups: int
    key_dim: int
    value_dim: int
    weights: tuple[tuple[int, int], ...]


LAYERS = (
    Layer(
        name="Qwen3.5-27B", kind="gated_delta", heads=48, groups=16, key_dim=128, value_dim=128,
        weights=((5120, 16480), (6144, 5120), (5120, 2 * 17408), (17408, 5120)),
    ),
    Layer(
        name="Nemotron-H-8B", kind="mamba2", heads=128, groups=8, key_dim=128, value_dim=64,
        weights=((4096, 18560), (8192, 4096), (4096, 21504), (21504, 4096)),
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table; times in milliseconds, None where not measured."""

    layer: str
    tokens: int
    events: int
    options: dict[str, Any]
    error: float | None
    capture_ms: float
    chunk_ms: float | None
    matmuls_ms: float
    share: float
    compress_ms: float | None


def inputs(layer: Layer, num_tokens: int, device: str, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Random inputs of the layer's recurrence, as an engine's kernels get them."""
    random = torch.Generator().manual_seed(0)

    def noise(*size: int) -> torch.Tensor:
        return torch.randn(num_tokens, *size, generator=random)

    keys, values = noise(layer.groups, layer.key_dim), noise(layer.heads, layer.value_dim).to(device, dtype)
    one, other = noise(layer.heads), noise(layer.heads)
    if layer.kind == "mamba2":
        a = -torch.rand(layer.heads, generator=random) - 0.1
        return values, keys.to(device, dtype), torch.nn.functional.softplus(one - 2).to(device), a.to(device)
    log_decay = torch.nn.functional.logsigmoid(one + 4)
    return normalise(keys).to(device, dtype), values, log_decay.to(device), other.sigmoid().to(device)


def bounds_of(num_tokens: int, event_tokens: int, device: str) -> torch.Tensor:
    """Events of `event_tokens` tokens, every other one a token shorter or longer, so that chunks do not line up."""
    edges = [0]
    while edges[-1] < num_tokens:
        edges.append(min(num_tokens, edges[-1] + event_tokens + (0 if event_tokens == 128 else len(edges) % 3 - 1)))
    return torch.tensor(edges, dtype=torch.int32, device=device)


def milliseconds(run: Callable[[], object], device: str, repeats: int) -> float:
    """Median of `repeats` runs behind two more, which also compile."""
    times = []
    for turn in range(repeats + 2):
        synchronise(device)
        start = time.perf_counter()
        run()
        synchronise(device)
        times += [1e3 * (time.perf_counter() - start)] * (turn >= 2)
    return statistics.median(times)


def synchronise(device: str) -> None:
    """Wait for the device."""
    if device == "cuda":
        torch.cuda.synchronize()


def kernel(layer: Layer, module: Any) -> Callable[..., Events]:
    """The layer's function of one of the modules beside each other in `v14.kernels.engram`."""
    found: Callable[..., Events] = getattr(module, f"{layer.kind}_events")
    return found


def error(found: Events, exact: Events) -> float:
    """Largest error of any field relative to its largest number; infinite where a number is none."""
    worst = 0.0
    for one, other in zip(found, exact, strict=True):
        if one is not None and other is not None:
            difference = float((one - other).abs().max() / other.abs().max())
            worst = max(worst, difference if difference == difference else float("inf"))
    return worst


def chunk_kernel(layer: Layer, tensors: tuple[torch.Tensor, ...]) -> Callable[[], object] | None:
    """SGLang's kernel for the recurrence of one sequence; None where SGLang is not installed."""
    name = "chunk_gated_delta_rule" if layer.kind == "gated_delta" else "mamba_chunk_scan_combined"
    for place in SGLANG[layer.kind]:
        try:
            function = getattr(importlib.import_module(place), name)
            break
        except ImportError:
            continue
    else:
        return None
    device = tensors[0].device
    if layer.kind == "mamba2":
        x, b, dt, a = tensors
        out = torch.empty_like(x)[None]
        return lambda: function(
            x[None], dt[None], a, b[None], b[None],
            chunk_size=128, out=out, return_final_states=True, state_dtype=torch.float32,
        )  # fmt: skip
    k, v, g, beta = (tensor[None] for tensor in tensors)
    state = torch.zeros(1, layer.heads, layer.value_dim, layer.key_dim, device=device)
    bounds = torch.tensor([0, k.shape[1]], device=device)
    slots = torch.zeros(1, dtype=torch.int32, device=device)
    return lambda: function(
        q=k, k=k, v=v, g=g, beta=beta, initial_state=state, initial_state_indices=slots, cu_seqlens=bounds
    )


def matmuls(layer: Layer, num_tokens: int, device: str, dtype: torch.dtype) -> Callable[[], object]:
    """The products that the tokens pass beside the recurrence."""
    pairs = [
        (
            torch.randn(num_tokens, rows, device=device, dtype=dtype),
            torch.randn(rows, columns, device=device, dtype=dtype),
        )
        for rows, columns in layer.weights
    ]
    return lambda: [left @ right for left, right in pairs]


def cut(events: Events, rank: int) -> None:
    """What a memory keeps of the events, some of them at a time as if they were layers."""
    for start in range(0, events.decay.shape[0], 16):
        layers = [events.factors(event) for event in range(start, min(start + 16, events.decay.shape[0]))]
        no_tail = events.decay.new_empty(0, 0)
        compress(stack(layers, [no_tail] * len(layers)), rank)


def rows(layer: Layer, args: argparse.Namespace) -> Iterator[Row]:
    """The layer's lines of the table."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32  # the interpreter's bf16 is not right
    repeats = 1 if args.tiny else 20
    if args.tiny:
        layer = replace(layer, heads=2, groups=1, key_dim=16, value_dim=16, weights=((16, 48), (32, 16)))
    num_tokens = 70 if args.tiny else 8192
    tensors = inputs(layer, num_tokens, device, dtype)
    run_chunk = None if device == "cpu" else chunk_kernel(layer, tensors)
    chunk_ms = None if run_chunk is None else milliseconds(run_chunk, device, repeats)
    matmuls_ms = milliseconds(matmuls(layer, num_tokens, device, dtype), device, repeats)
    for event_tokens in (128, 60):
        bounds = bounds_of(num_tokens, event_tokens, device)
        exact = kernel(layer, naive)(*tensors, bounds)
        for options in configurations(args):
            capture = lambda: kernel(layer, triton)(*tensors, bounds, **options)  # noqa: B023, E731 - called at once
            found = capture()
            capture_ms = milliseconds(capture, device, repeats)
            compress_ms = None if options else milliseconds(lambda: cut(found, 1), device, min(repeats, 3))  # noqa: B023
            yield Row(
                layer=layer.name, tokens=num_tokens, events=bounds.shape[0] - 1, options=options,
                error=error(found, exact), capture_ms=capture_ms, chunk_ms=chunk_ms, matmuls_ms=matmuls_ms,
                share=capture_ms / ((chunk_ms or 0) + matmuls_ms), compress_ms=compress_ms,
            )  # fmt: skip


def configurations(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Options of the kernel: its own choice, and in a sweep others beside it."""
    yield {}
    if not args.sweep:
        return
    sizes = [(chunk, 64, warps) for chunk in (16, 32, 64) for warps in (4, 8)] + [
        (chunk, 128, 8) for chunk in (16, 32, 64)
    ]
    # Three products in place of one spill so much that larger tiles take minutes to compile.
    for precision, found in (("tf32", sizes), ("tf32x3", [(16, 64, 4), (32, 64, 4), (32, 64, 8)])):
        for chunk, max_rows, num_warps in found:
            yield {"chunk": chunk, "max_rows": max_rows, "num_warps": num_warps, "precision": precision}


def line(row: Row) -> str:
    """The row as printed."""
    times = (row.capture_ms, row.chunk_ms, row.matmuls_ms, row.compress_ms)
    shown = " ".join(f"{'-' if ms is None else format(ms, '.3f'):>10}" for ms in times)
    options = " ".join(map(str, row.options.values())) or "default"
    return f"{row.layer:14} {row.events:6} {options:22} {row.error:9.1e} {shown} {row.share:8.1%}"


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--sweep", action="store_true", help="time other sizes too")
    parser.add_argument("--tiny", action="store_true", help="everything once, at tiny sizes")
    args = parser.parse_args()
    found = []
    print(f"{'layer':14} {'events':>6} {'options':22} {'error':>9}", end=" ")
    print(" ".join(f"{name + ' ms':>10}" for name in ("capture", "chunk", "matmuls", "rank 1")), f"{'share':>8}")
    for layer in LAYERS:
        for row in rows(layer, args):
            print(line(row), flush=True)
            found.append(asdict(row))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    result = {"device": device, "torch": torch.__version__, "triton": version("triton"), "rows": found}
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
