"""The Triton kernel of votes, run on the CPU by Triton's interpreter, against the plain version.

A program of its own, because the interpreter is chosen when Triton is imported: prints a JSON list of
{"case", "error"}, the largest error of any share (null: not finite, or of another shape).
"""

import itertools
import json
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch

from tests.kernels.event_keys import case, tally_case
from v14.kernels.votes import naive, triton

LENGTHS = {"one": [1], "odd": [1, 128, 17, 3], "dead": [5, 0, 33], "many": [2, 9, 4, 31, 64, 65, 1]}
QUERIES = (1, 16, 33, 129)
DIMS = (64, 80, 32, 128, 256)


def error(found: torch.Tensor, exact: torch.Tensor) -> float | None:
    if found.shape != exact.shape or not torch.isfinite(found).all():
        return None
    return (found - exact).abs().max().item()


def main() -> None:
    # Uninitialised memory is NaN from here on.
    torch.use_deterministic_algorithms(True)
    results = {}
    # Every length with every number of queries; kinds and dimensions take turns.
    kinds = itertools.cycle(["fp32", "int8", "fp16", "sketch"])
    dims = itertools.cycle(DIMS)
    for name, lengths in LENGTHS.items():
        for num_queries in QUERIES:
            kind, dim = next(kinds), next(dims)
            given = case(kind, lengths, num_queries, dim)
            found = triton.event_shares(*given, tokens=32, events=3, max_queries=64)
            results[f"{name}-{num_queries}-{dim}-{kind}"] = error(found, naive.event_shares(*given))
    for kind in ("int8", "sketch"):
        given = case(kind, [3, 40], 5, 64, strength=200.0)
        results[f"far-off-5-64-{kind}"] = error(triton.event_shares(*given, tokens=32), naive.event_shares(*given))
    for floor, picked in itertools.product((None, 0.01), (False, True)):
        arguments = tally_case(300, floor, picked=picked)
        found, exact = (module.tally(*arguments) for module in (triton, naive))
        gone = exact.isinf()
        same = (found[gone] == exact[gone]).all()
        results[f"tally-{floor}-{picked}-fp32"] = error(found[~gone], exact[~gone]) if same and gone.any() else None
    print(json.dumps([{"case": name, "error": value} for name, value in results.items()]))


if __name__ == "__main__":
    main()
