"""Reading a probe: the cue's queries are kept at the voters' layers, and the plan is made when the prompt is read.

The probe is an ordinary request of one new token. Its prefill fills the radix cache, so that a request whose plan is
empty finds its prompt computed.
"""

from collections.abc import Callable
from typing import Any

import torch

from v14.engines.sglang import runtime
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
    """Let the attention hook see the batch while it runs, and plan for every probe that is read to its end."""
    engine = runtime.current()
    if engine is None or not engine.probing or not forward_batch.forward_mode.is_extend_without_speculative():
        return original(runner, forward_batch, *args, **kwargs)
    engine.live_batch = forward_batch
    try:
        output = original(runner, forward_batch, *args, **kwargs)
    finally:
        engine.live_batch = None
    with engine.memory.guard("probes"):
        for rid, end in zip(forward_batch.rids, _ends(forward_batch), strict=True):
            req = engine.probing.get(rid)
            if req is None or end < len(req.v14_reading.sequence.token_ids):
                continue
            del engine.probing[rid]
            with engine.memory.guard("probe"):
                req.customized_info = {KEY: [engine.plan(req.v14_reading, engine.slots(req, end))]}
    return output


def keep_queries(
    backend: Any, q: Any = None, k: Any = None, v: Any = None, layer: Any = None, *args: Any, **kwargs: Any
) -> None:
    """Copy a probe's queries at a voter layer. `q` is `[tokens of the batch, heads · D]`, post-rotary."""
    engine = runtime.current()
    if engine is None or engine.live_batch is None or layer is None or layer.layer_id not in engine.voter_layers:
        return
    with engine.memory.guard("queries"):
        _keep_queries(engine, q.view(q.shape[0], -1, engine.memory.profile.geometry.head_dim), layer.layer_id)


def _keep_queries(engine: Runtime, q: torch.Tensor, layer_id: int) -> None:
    batch = engine.live_batch
    first = 0
    for rid, end, length in zip(batch.rids, _ends(batch), batch.extend_seq_lens_cpu, strict=True):
        req = engine.probing.get(rid)
        if req is not None:
            reading: Reading = req.v14_reading
            start = max(end - length, reading.cue_start(engine.memory.profile.options.cue_tokens))
            if start < end:
                kept = q[first + length - (end - start) : first + length].clone()
                reading.queries.setdefault(layer_id, []).append(kept)
        first += length


def _ends(batch: Any) -> list[int]:
    return [p + n for p, n in zip(batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu, strict=True)]
