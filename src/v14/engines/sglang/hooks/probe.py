"""The probe: a request's own first reading, in which the cue's queries are kept at the voters' layers.

    forward pass       queries are kept, the cue is computed on the device and its copy to the CPU is started
    result processing  the scheduler waits for the pass anyway, while the next one runs: votes and plan
        plan is empty  the request goes on with its first token: nothing was read twice
        plan recalls   it ends unheard, its prompt stays in the radix cache, and it is queued again behind its span

A pass that reads nothing but requests that look is decided earlier, and may end there (`stop.py`).

Attention runs as Python between the segments of SGLang's prefill graphs, so the first step works in graphs as it does
without.
"""

from collections.abc import Callable
from typing import Any

import torch

from v14.engines.sglang import cues, decoding, planning, runtime, seams
from v14.engines.sglang.hooks import stop
from v14.engines.sglang.passes import passes
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime


def compute_cue_tokens(max_prefix_len: int, req: Any, input_len: int) -> int:
    """Keep the radix cache from serving the cue's tokens: cached tokens have no queries."""
    reading: Reading | None = getattr(req, "v14_reading", None)
    engine = runtime.current()
    if engine is None or reading is None or not reading.is_looking:
        return max_prefix_len
    return min(max_prefix_len, reading.cue_start(engine.memory.profile.options.cue_tokens))


def watch_forward(original: Callable[..., Any], runner: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the attention hook see the batch while it runs, and keep the cue of every prompt that is read to its end.

    Inside a prefill graph the attention layers are handed another batch object, which does not name its requests.
    """
    engine = runtime.current()
    if engine is None or not engine.probing or not seams.reads_prompts(runner, forward_batch):
        return original(runner, forward_batch, *args, **kwargs)
    engine.live_batch = forward_batch
    with engine.memory.guard("stop"):
        engine.hearing = stop.may_stop(engine, forward_batch)
    try:
        output = original(runner, forward_batch, *args, **kwargs)
    except stop.Unheard as left:
        output = seams.unheard(runner, forward_batch, in_graphs=left.in_graphs)
    finally:
        engine.live_batch, engine.hearing = None, ()
    with engine.memory.guard("cues"):
        for part in passes(forward_batch):
            req = engine.probing.get(part.rid)
            if req is None or part.end < len(req.v14_reading.sequence.token_ids):
                continue
            del engine.probing[part.rid]
            with engine.memory.guard("cue"):
                cues.keep(engine, req.v14_reading, engine.slots(req, part.end))
    return output


def decide(req: Any, new_accepted_len: int = 1) -> None:
    """A request has its first token: if its plan brings something back, the token is dropped and the request ends here.

    Called for every token of every request, so it has to be quick to see that there is nothing to decide.
    """
    reading: Reading | None = getattr(req, "v14_reading", None)
    if reading is None or not reading.is_looking:
        return
    engine = runtime.current()
    if engine is None or req.finished() or req.to_finish is not None:
        return
    with engine.memory.guard("plan"):
        if reading.beside is not None:
            decoding.decide(engine, req, reading)
        else:
            planning.decide(engine, req, reading)


def read_again(result: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
    """A request that ended with its plan has given its slots back: it is queued again, to be read behind its span."""
    engine = runtime.current()
    reading: Reading | None = getattr(req, "v14_reading", None)
    if engine is not None and reading is not None and reading.again is not None and req.rid in engine.ended:
        planning.read_again(engine, req)
    return result


def keep_queries(
    backend: Any, q: Any = None, k: Any = None, v: Any = None, layer: Any = None, *args: Any, **kwargs: Any
) -> None:
    """Copy a prompt's queries at a voter layer. `q` is `[tokens of the batch, heads · D]`, post-rotary."""
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
        cue_start = reading.cue_start(engine.memory.profile.options.cue_tokens)
        if cue_start < part.end:
            kept = reading.queries.setdefault(layer_id, [])
            if part.start <= cue_start:
                kept.clear()  # read anew from here: an earlier try was put back into the queue
            kept.append(q[part.rows(max(part.start, cue_start), part.end)].clone())
