"""How a recalled span comes back: which way, and what is placed where it is not read again."""

import torch

from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.telling import WAY
from v14.reinstate.cost import Way
from v14.reinstate.transcripts import Placement
from v14.types import Span


def way(engine: Runtime, num_tokens: int) -> Way:
    """How a span of `num_tokens` is to come back."""
    if engine.reinstate == "reread":
        return "reread"
    if engine.reinstate != "auto":
        return engine.memory.way(num_tokens)
    return engine.ranks.told(WAY, lambda: engine.memory.way(num_tokens))


def span(engine: Runtime, reading: Reading, placement: Placement, position: int) -> Span:
    """What a placement leaves in the layers where it stands at `position`: of this rank's heads, on the CPU."""
    if engine.ranks.size == 1:
        return reading.session.span(placement, position)

    def parts() -> list[tuple[torch.Tensor, torch.Tensor]]:
        span = reading.session.span(placement, position)
        return list(zip(engine.shards.cut(span.keys), engine.shards.cut(span.values), strict=True))

    keys, values = engine.ranks.scattered(parts)
    events = reading.session.events(placement)
    return Span(
        position=position,
        token_ids=tuple(token for event in events for token in event.token_ids),
        keys=keys,
        values=values,
    )
