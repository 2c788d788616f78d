"""Sketches of voter keys: a few directions of each, in 8 bits, that say nearly as much of its scores.

Of q·k little is lost when k is seen only along the directions where keys differ *and* queries look. For second moments
of queries A·Aᵀ (Cholesky) and centred keys C these are the leading eigenvectors v of AᵀCA: then q·k is the product of
A⁻¹q and Aᵀk, whose first part has unit variance in every direction, and what is left out has the least there is to
lose. Both moments come from the calibration set and are kept with the voters; which events a namespace holds does not
matter.

Principal components of the keys alone need far more directions, and means over an event find nothing (LOG.md,
"sketches").

Shapes: U rows of voter keys, V voters, T tokens, D dimension of a head, K directions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from v14.types import Cue

LEAST_DIRECTIONS = 32
SHARE_OF_DIRECTIONS = 1 / 4
"""Of a head's dimension, but at least `LEAST_DIRECTIONS`, which the kernels take anyway."""

RIDGE = 1e-3
"""Of the mean, added to every direction of what was asked: nobody knows all that will be."""

LARGEST = 127


@dataclass(frozen=True, kw_only=True, eq=False)
class Sketch:
    """What sketches of keys are made with.

    keys: `[U, D, K]`, what centred keys are multiplied by, in steps of the sketch; queries: `[U, D, K]`, the same for
    queries, times the step; centre: `[U, D]`; all fp32.
    """

    keys: torch.Tensor
    queries: torch.Tensor
    centre: torch.Tensor

    def __post_init__(self) -> None:
        rows, dim, directions = self.keys.shape
        if self.queries.shape != (rows, dim, directions) or self.centre.shape != (rows, dim):
            shapes = [tuple(each.shape) for each in (self.keys, self.queries, self.centre)]
            raise ValueError(f"a sketch's keys, queries and centre {shapes} must be [U, D, K], [U, D, K], [U, D]")

    def of(self, keys: torch.Tensor) -> torch.Tensor:
        """The sketches `[U, T, K]` int8 of keys `[U, T, D]` fp32."""
        found = (keys - self.centre[:, None]) @ self.keys
        return found.round_().clamp_(-LARGEST, LARGEST).to(torch.int8)

    def rows(self, rows: Sequence[int]) -> "Sketch":
        """That of some rows."""
        some = list(rows)
        return Sketch(keys=self.keys[some], queries=self.queries[some], centre=self.centre[some])

    def to(self, device: torch.device) -> "Sketch":
        """The same on a device."""
        return Sketch(keys=self.keys.to(device), queries=self.queries.to(device), centre=self.centre.to(device))


def fit(keys: torch.Tensor, cues: Sequence[Cue], rows: Sequence[int]) -> Sketch:
    """A sketch for keys like `keys` `[U, T, D]` and questions like some cues'; `rows` as in `Voters.key_rows`."""
    dim = keys.shape[2]
    num = min(dim, max(LEAST_DIRECTIONS, round(SHARE_OF_DIRECTIONS * dim)))
    found = []
    for row, own in enumerate(keys.double()):
        voters = [voter for voter, of in enumerate(rows) if of == row]
        asked = torch.cat([cue.queries[voter] for cue in cues for voter in voters]).double()
        found.append(_fit_row(own, asked, num))
    into, out, centre = (torch.stack(each).float().contiguous() for each in zip(*found, strict=True))
    return Sketch(keys=into, queries=out, centre=centre)


def _fit_row(keys: torch.Tensor, asked: torch.Tensor, num: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Both directions `[D, K]` and the centre `[D]` of one row, of keys `[T, D]` and queries `[n, D]`."""
    centre = keys.mean(0)
    keys = keys - centre
    moments = asked.T @ asked / len(asked)
    ridge = RIDGE * float(moments.diagonal().mean()) + torch.finfo(torch.float32).tiny
    root = torch.linalg.cholesky(moments + ridge * torch.eye(len(moments), dtype=moments.dtype))
    leading = torch.linalg.eigh(root.T @ (keys.T @ keys / len(keys)) @ root).eigenvectors[:, -num:]
    into = root @ leading
    step = max(float((keys @ into).abs().max()), 1e-6) / LARGEST
    return into / step, step * torch.linalg.solve_triangular(root.T, leading, upper=True), centre
