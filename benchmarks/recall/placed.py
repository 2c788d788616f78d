"""The same memory with events' keys and values put back (`kv`) where the benchmark reads their tokens again.

One event and one reply at a time, as an engine does it: a sample that says whether the table would be another one.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from benchmarks.recall.chats import Case, Chat
from benchmarks.recall.reading import ANSWER_TOKENS, Reader
from benchmarks.recall.volatile import KeepingStore
from v14.engines.transformers.reading import forward, new_cache
from v14.memory import Memory
from v14.reinstate.rotation import move_keys
from v14.types import Trace

NAMESPACE = "placed"


@torch.inference_mode()
def replies(reader: Reader, chats: Sequence[Chat], cases: Sequence[Case]) -> list[str]:
    """Replies to the cases' questions by a memory of its own that was told the chats. Needs a placeable model."""
    options = reader.profile.options.model_copy(update={"reinstate": "kv"})
    profile = replace(reader.profile, options=options)
    memory = Memory(profile, reader.memory.switches, KeepingStore())
    session = memory.session(NAMESPACE)
    for chat in chats:
        ids, cache = reader.ids(chat.turns), new_cache(reader.model, session)
        forward(reader.model, cache, ids)
        for cut in reader.cuts(chat, ids, NAMESPACE):
            keys, values = cache.read(cut.start, cut.end)
            session.keep([(cut.event, Trace(keys=move_keys(keys, profile.geometry, -cut.start), values=values))])
    reader.model.v14 = memory
    written = []
    for case in cases:
        ids = reader.ids((("user", case.question),), generate=True)
        output = reader.model.generate(
            torch.tensor([ids], device=reader.device),
            v14_namespace=NAMESPACE,
            v14_memory="read",
            max_new_tokens=ANSWER_TOKENS,
            do_sample=False,
        )
        written.append(reader.text(output[0, len(ids) :].tolist()).strip())
    return written
