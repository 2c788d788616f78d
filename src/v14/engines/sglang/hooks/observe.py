"""A request ends: what it read and wrote becomes events, while its KV slots are still its own.

Aborted requests take the same door. A request that is only put back into the queue (retraction) comes here again at its
end.
"""

from typing import Any

import torch

from v14.engines.sglang import runtime, seams
from v14.engines.sglang.hooks import probe
from v14.engines.sglang.reading import Reading
from v14.engines.sglang.runtime import Runtime


def store_finished(req: Any, tree_cache: Any, *args: Any, **kwargs: Any) -> None:
    """Store the new events of a finished request."""
    engine = runtime.current()
    reading: Reading | None = getattr(req, "v14_reading", None)
    if engine is None or reading is None or reading.is_stored:
        return
    if not req.finished() or seams.kv_row(req) is None:
        return
    engine.probing.pop(req.rid, None)
    if reading.is_probe:
        probe.answer(engine, req)
    if reading.is_probe or not reading.ticket.writes:
        return
    reading.is_stored = True
    with engine.memory.guard("observe"):
        _observe(engine, reading, req)


def _observe(engine: Runtime, reading: Reading, req: Any) -> None:
    sequence_len = len(reading.sequence.token_ids)
    committed = seams.owned_length(req)
    if committed < sequence_len:
        return
    token_ids = list(reading.token_ids)
    positions = list(reading.sequence.positions)
    if engine.memory.profile.options.write_generated:
        written = list(req.output_ids)[: committed - sequence_len]
        token_ids += written
        positions += range(sequence_len, sequence_len + len(written))
    row = engine.slots(req, committed)
    pool = engine.kv_pool
    layers = [layer.index for layer in engine.memory.profile.geometry.layers]

    def read_kv(start: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        slots = row[start:end]
        keys = torch.stack([pool.get_key_buffer(layer)[slots] for layer in layers])
        values = torch.stack([pool.get_value_buffer(layer)[slots] for layer in layers])
        return keys.cpu(), values.cpu()

    recording = reading.recording
    reading.session.observe(
        token_ids, positions, read_kv, reading.ticket.chat_id, None if recording is None else recording.engram
    )
