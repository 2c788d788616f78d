"""What a request asks the memory with: the queries of its prompt's new part at the voters, copied off as a cue.

end of the forward pass   the cue of the voters that this rank has; its copy to the CPU is started (`keep`)
plan                      the cue of all voters, on the first rank (`whole`)
"""

import torch

from v14.engines.sglang.ranks import RankError
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.slots import read
from v14.recall.cue import build_cue, gather
from v14.types import Cue


def keep(engine: Runtime, reading: Reading, row: torch.Tensor) -> None:
    """Start copying off the cue of a request whose prompt is read; `row` holds the KV slots of its whole sequence.

    Called at the end of the forward pass, on its stream; nothing here waits for the device.
    """
    cue = _own(engine, reading, row)
    reading.queries.clear()
    reading.cue = Cue(
        queries=cue.queries.to("cpu", non_blocking=True), context_lse=cue.context_lse.to("cpu", non_blocking=True)
    )
    if cue.queries.is_cuda:
        reading.cue_copied = torch.cuda.Event()
        reading.cue_copied.record()


def _own(engine: Runtime, reading: Reading, row: torch.Tensor) -> Cue:
    """The cue of the voters that this rank has."""
    geometry, voters = engine.own_part
    asked = {layer: torch.cat(parts) for layer, parts in reading.queries.items()}
    num_queries = len(next(iter(asked.values())))
    if not voters.heads:
        return Cue(
            queries=row.new_empty(0, num_queries, geometry.head_dim, dtype=torch.float32),
            context_lse=row.new_empty(0, num_queries, dtype=torch.float32),
        )
    own = {layer: read(engine.kv_pool.get_key_buffer(layer), row) for layer in voters.layers}
    queries, keys = gather(asked, own, geometry, voters)
    return build_cue(
        queries,
        keys,
        geometry,
        voters,
        first_query=len(reading.sequence.token_ids) - num_queries,
        start=reading.new_position,
    )


def whole(engine: Runtime, reading: Reading, cue: Cue | None) -> Cue | None:
    """The cue of all voters, on the first rank; None on the others."""

    def mine() -> tuple[torch.Tensor, torch.Tensor]:
        if cue is None:
            raise RankError("the cue of this rank's voters is not there; the log says why, look above")
        if reading.cue_copied is not None:
            reading.cue_copied.synchronize()
        return cue.queries, cue.context_lse

    if engine.ranks.size == 1:
        return cue
    parts = engine.ranks.gathered(mine)
    if parts is None:
        return None
    cues = [Cue(queries=queries, context_lse=context_lse) for queries, context_lse in parts]
    return engine.shards.joined_cue(engine.memory.profile.voters, cues)
