"""Which heads one of several ranks has, and whole tensors out of what the ranks have.

SGLang gives the rank r of n the query heads [r · H / n, (r + 1) · H / n). KV heads are cut in the same way; where there
are fewer of them than ranks, n / H neighbours have copies of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from v14.config import Options
from v14.geometry import Geometry
from v14.recall.voters import Voters
from v14.types import Cue


@dataclass(frozen=True, kw_only=True)
class Shards:
    """The heads of a model among `size` ranks."""

    num_heads: int
    num_kv_heads: int
    size: int = 1

    @classmethod
    def of(cls, geometry: Geometry, size: int) -> "Shards":
        """Of a model; `uneven` says whether its heads can be shared out so."""
        return cls(num_heads=geometry.num_heads, num_kv_heads=geometry.num_kv_heads, size=size)

    @property
    def uneven(self) -> bool:
        """Whether some rank would have more heads than another: SGLang does not serve that."""
        more, fewer = max(self.num_kv_heads, self.size), min(self.num_kv_heads, self.size)
        return self.num_heads % self.size > 0 or more % fewer > 0

    @property
    def kv_heads_each(self) -> int:
        """KV heads that every rank has."""
        return max(1, self.num_kv_heads // self.size)

    def kv_heads(self, rank: int) -> slice:
        """The KV heads of a rank."""
        first = rank * self.num_kv_heads // self.size
        return slice(first, first + self.kv_heads_each)

    def geometry(self, whole: Geometry) -> Geometry:
        """The model as each rank has it."""
        return replace(whole, num_heads=self.num_heads // self.size, num_kv_heads=self.kv_heads_each)

    def voters(self, whole: Voters, rank: int) -> tuple[Voters, list[int]]:
        """The voters that sit in a rank's heads, which count from 0 there, and their places among all."""
        each = self.num_heads // self.size
        places = [place for place, (_, head) in enumerate(whole.heads) if head // each == rank]
        null = Cue(queries=whole.null.queries[places], context_lse=whole.null.context_lse[places])
        mine = Voters(
            heads=tuple((layer, head - rank * each) for layer, head in (whole.heads[place] for place in places)),
            weights=tuple(whole.weights[place] for place in places),
            calibration=whole.calibration,
            null=null,
            sinks=tuple(whole.sinks[place] for place in places) if whole.sinks else (),
        )
        return mine, places

    def cut(self, whole: torch.Tensor) -> list[torch.Tensor]:
        """Keys or values `[L, T, H, D]` as each rank has them."""
        return [whole[:, :, self.kv_heads(rank)].contiguous() for rank in range(self.size)]

    def joined(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """The inverse of `cut`; of copies of a head, the first rank's is taken."""
        copies = max(1, self.size // self.num_kv_heads)
        return torch.cat(list(parts[::copies]), dim=2)

    def joined_cue(self, whole: Voters, parts: Sequence[Cue]) -> Cue:
        """The cue of all voters out of those of each rank's own (`voters`)."""
        order = [place for rank in range(self.size) for place in self.voters(whole, rank)[1]]
        back = torch.tensor(order).argsort()
        return Cue(
            queries=torch.cat([part.queries for part in parts])[back],
            context_lse=torch.cat([part.context_lse for part in parts])[back],
        )


def refused_ranks(tp_size: Any, geometry: Geometry, options: Options) -> list[str]:
    """What the memory does not serve with a model's heads shared out among `tp_size` ranks."""
    size = int(tp_size or 1)
    if size == 1:
        return []
    lines = []
    if Shards.of(geometry, size).uneven:
        lines.append(
            f"--tp-size {size}: {geometry.num_heads} heads and {geometry.num_kv_heads} KV heads cannot be shared out "
            "evenly; serve with a --tp-size that divides them"
        )
    if geometry.recurrent is not None and geometry.placeable:
        remedy = "in the directory's config.json, or serve with --tp-size 1"
        if options.reinstate == "kv":
            lines.append(
                f"--tp-size {size} with `reinstate: kv`: each rank has a part of the recurrent states, which are not "
                f"placed; write `reinstate: reread` {remedy}"
            )
        if options.engram_rank:
            lines.append(
                f"--tp-size {size} with `engram_rank: {options.engram_rank}`: each rank has a part of the recurrent "
                f"states, of which no engrams are kept; write `engram_rank: 0` {remedy}"
            )
    return lines
