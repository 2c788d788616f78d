"""The Triton kernels of events, run on the CPU by Triton's interpreter, against the plain versions.

A program of its own, because the interpreter is chosen when Triton is imported: prints a JSON list of
{"case", "error"}, the largest error of any output relative to the largest number of the plain one (null: not finite).
"""

import json
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch

from v14.engram.gated_delta import normalise
from v14.kernels.engram import Events, naive, triton

CASES = {
    # name: bounds, heads, groups, K, P, options
    "one-token": ([0, 1], 1, 1, 16, 16, {}),
    "three-tokens-odd-dims": ([0, 3], 2, 1, 5, 7, {}),
    "chunk": ([0, 64], 1, 1, 16, 8, {}),
    "127": ([0, 127], 2, 2, 12, 20, {}),
    "128": ([0, 128], 1, 1, 16, 16, {}),
    "beyond-128": ([0, 150], 1, 1, 8, 8, {"chunk": 32}),
    "any-bounds": ([2, 5, 5, 38, 39, 71], 4, 2, 9, 17, {"chunk": 16}),
    "blocks-of-rows": ([0, 20, 33], 2, 1, 33, 40, {"chunk": 32, "max_rows": 16}),
}

STRENGTHS = (0.1, 4.0, 300.0)
"""Largest decay of a token, in e-foldings."""


def inputs(kind, bounds, heads, groups, key_dim, value_dim, *, strength=1.0, padding=float("nan")):
    """Random inputs of one layer; whatever no event may look at is NaN: other tokens, and what lies between slices."""
    random = torch.Generator().manual_seed(bounds[-1] + key_dim)
    num_tokens = bounds[-1] + 3

    def wide(*size):
        tensor = torch.full((num_tokens, *size[:-1], size[-1] + 2), padding)
        tensor[bounds[0] : bounds[-1], ..., : size[-1]] = torch.randn(bounds[-1] - bounds[0], *size, generator=random)
        return tensor[..., : size[-1]]

    keys, values = wide(groups, key_dim), wide(heads, value_dim)
    one, other = wide(heads), wide(heads)
    if kind == "mamba2":
        return values, keys, one.sigmoid(), -strength * torch.rand(heads, generator=random)
    return normalise(keys), values, -strength * one.sigmoid(), other.sigmoid()


def error(found: Events, exact: Events) -> float | None:
    worst = 0.0
    for one, other in zip(found, exact, strict=True):
        if other is None:
            assert one is None
            continue
        if one.shape != other.shape or not torch.isfinite(one).all():
            return None
        worst = max(worst, ((one - other).abs().max() / other.abs().max().clamp(min=1e-20)).item())
    return worst


def main() -> None:
    # Uninitialised memory is NaN from here on.
    torch.use_deterministic_algorithms(True)
    results = {}
    for name, (edges, *shape, options) in CASES.items():
        bounds = torch.tensor(edges, dtype=torch.int32)
        for strength in STRENGTHS:
            gated = inputs("gated_delta", edges, *shape, strength=strength)
            found = triton.gated_delta_events(*gated, bounds, **options)
            results[f"gated_delta-{name}-{strength}"] = error(found, naive.gated_delta_events(*gated, bounds))
            mamba = inputs("mamba2", edges, *shape, strength=strength)
            found = triton.mamba2_events(*mamba, bounds, **options)
            results[f"mamba2-{name}-{strength}"] = error(found, naive.mamba2_events(*mamba, bounds))
    bounds = torch.tensor([0, 9, 40], dtype=torch.int32)
    keys, *rest = inputs("gated_delta", [0, 9, 40], 2, 1, 12, 6)
    long = 3 * keys
    found = triton.gated_delta_events(long, *rest, bounds, normalise=True, chunk=16)
    results["normalised"] = error(found, naive.gated_delta_events(long, *rest, bounds, normalise=True))
    # The hardest system to solve: one key again and again, written in full. Sums of its powers would cancel.
    same = keys[5:6].expand(keys.shape).contiguous()
    weak = same, rest[0], torch.zeros_like(rest[1]), torch.ones_like(rest[2])
    found = triton.gated_delta_events(*weak, bounds)
    results["repeated-key"] = error(found, naive.gated_delta_events(*weak, bounds))
    print(json.dumps([{"case": case, "error": value} for case, value in results.items()]))


if __name__ == "__main__":
    main()
