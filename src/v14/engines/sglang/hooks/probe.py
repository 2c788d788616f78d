"""Reading a probe: the cue's queries are kept at the voters' layers, and the plan is made when its result is processed.

The probe is an ordinary request of one new token. Its prefill fills the radix cache, so that a request whose plan is
empty finds its prompt computed.

    forward pass      queries are kept, the cue is computed on the device and its copy to the CPU is started
    result processing the scheduler waits for the pass anyway, while the next one runs: votes and plan

Attention runs as Python between the segments of SGLang's prefill graphs, so the first step works in graphs as it does
without.
"""

from collections.abc import Callable
from typing import Any

import torch

from v14.engines.sglang import runtime
from v14.engines.sglang.passes import passes
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.ticket import KEY


def compute_cue_tokens(max_prefix_len: int, req: Any, input_len: int) -> int:
    """Keep the radix cache from serving the cue's tokens of a probe: cached tokens have no queries."""
    reading: Reading | None = getattr(req, "v14_reading", None)
    engine = runtime.current()
    if engine is None or reading is None or not reading.is_probe:
        return max_prefix_len
    return min(max_prefix_len, reading.cue_start(engine.memory.profile.options.cue_tokens))


def watch_forward(original: Callable[..., Any], runner: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the attention hook see the batch while it runs, and keep the cue of every probe that is read to its end.

    Inside a prefill graph the attention layers are handed another batch object, which does not name its requests.
    """
    engine = runtime.current()
    if engine is None or not engine.probing or not forward_batch.forward_mode.is_extend_without_speculative():
        return original(runner, forward_batch, *args, **kwargs)
    engine.live_batch = forward_batch
    try:
        output = original(runner, forward_batch, *args, **kwargs)
    finally:
        engine.live_batch = None
    with engine.memory.guard("probes"):
        for part in passes(forward_batch):
            req = engine.probing.get(part.rid)
            if req is None or part.end < len(req.v14_reading.sequence.token_ids):
                continue
            del engine.probing[part.rid]
            with engine.memory.guard("probe"):
                engine.keep_cue(req.v14_reading, engine.slots(req, part.end))
    return output


def answer(engine: Runtime, req: Any) -> None:
    """Send the plan of a probe that is over to the front, with its one token."""
    cue = req.v14_reading.cue
    if cue is not None:
        with engine.memory.guard("probe"):
            req.customized_info = {KEY: [engine.plan(req.v14_reading, cue)]}


def keep_queries(
    backend: Any, q: Any = None, k: Any = None, v: Any = None, layer: Any = None, *args: Any, **kwargs: Any
) -> None:
    """Copy a probe's queries at a voter layer. `q` is `[tokens of the batch, heads · D]`, post-rotary."""
    engine = runtime.current()
    if engine is None or engine.live_batch is None or layer is None or layer.layer_id not in engine.voter_layers:
        return
    with engine.memory.guard("queries"):
        _keep_queries(engine, q.reshape(q.shape[0], -1, engine.memory.profile.geometry.head_dim), layer.layer_id)


def _keep_queries(engine: Runtime, q: torch.Tensor, layer_id: int) -> None:
    for part in passes(engine.live_batch):
        req = engine.probing.get(part.rid)
        if req is None:
            continue
        reading: Reading = req.v14_reading
        start = max(part.start, reading.cue_start(engine.memory.profile.options.cue_tokens))
        if start < part.end:
            kept = q[part.rows(start, part.end)].clone()
            reading.queries.setdefault(layer_id, []).append(kept)
