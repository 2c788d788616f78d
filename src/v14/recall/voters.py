"""The few attention heads whose attention finds the right event, and what calibrates their votes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from v14.geometry import Geometry
from v14.recall.sketch import Sketch
from v14.types import Cue


@dataclass(frozen=True, kw_only=True, eq=False)
class Voters:
    """`heads` are (model layer index, query head), by layer. `null` is the cue of a content-free prompt.

    `weights` multiply each head's calibrated share; `calibration` says how the null cue's share is removed
    (`v14.recall.votes`). `sinks` are the heads' learned sink scores, which take part of the attention of every query
    and belong to no token (GPT-OSS); empty for a model that has none. `spread` is the standard deviation of each
    voter's calibrated share over questions and events, empty if it was not measured; `sketch` says how the keys that
    voters read are sketched.
    """

    heads: tuple[tuple[int, int], ...]
    weights: tuple[float, ...]
    calibration: str
    null: Cue
    sinks: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()
    sketch: Sketch | None = None

    @property
    def layers(self) -> tuple[int, ...]:
        """Model indices of the layers where voters sit, ascending."""
        return tuple(sorted({layer for layer, _ in self.heads}))

    def key_heads(self, geometry: Geometry) -> tuple[tuple[int, int], ...]:
        """The distinct (layer index, KV head) that the voters read, ascending: the U axis of voter keys."""
        return tuple(sorted({(layer, head // geometry.group) for layer, head in self.heads}))

    def key_rows(self, geometry: Geometry) -> torch.Tensor:
        """`[V]` int64: for each voter its row in the U axis."""
        rows = {pair: row for row, pair in enumerate(self.key_heads(geometry))}
        return torch.tensor([rows[layer, head // geometry.group] for layer, head in self.heads])

    def slots(self, geometry: Geometry) -> Sequence[int]:
        """Places of the voters' layers among the layers that hold KV."""
        return [geometry.slot(layer) for layer in self.layers]
