"""What the hooks see of SGLang's scheduler: requests that arrive, are queued and carry on, without a model."""

from array import array
from types import SimpleNamespace

import torch

from tests.memory_store import MemoryStore
from tests.tiny import chat_ids, tiny_checkpoint, tiny_profile
from v14.config import Switches
from v14.engines.sglang import runtime
from v14.engines.sglang.hooks import requests
from v14.memory import Memory
from v14.types import Cue, Trace

NAMESPACE = "a"
CUE = Cue(queries=torch.zeros(1, 1, 1), context_lse=torch.zeros(1, 1))


class Times(list):
    """What SGLang notes of a request while it serves it."""

    def set_wait_queue_entry_time(self):
        pass


class Request(SimpleNamespace):
    """The engine's own request; unlike its base it can be referred to weakly."""


class Scheduler:
    """Queues requests as SGLang's does, by way of the hooks."""

    max_req_len = 4096
    max_queued_requests = None
    tokenizer = SimpleNamespace(decode=str)

    def __init__(self):
        self.waiting_queue = []

    def handle_generate_request(self, recv_req):
        requests.arrive(self, recv_req)
        req = Request(
            rid=recv_req.rid,
            origin_input_ids=recv_req.input_ids,
            full_untruncated_fill_ids=array("q", recv_req.input_ids),
            output_ids=[],
            customized_info=None,
            to_finish=None,
            finished_output=None,
            finished=lambda: False,
            logprob_start_len=-1,
            sampling_params=recv_req.sampling_params,
            time_stats=recv_req.time_stats,
        )
        requests.attach(self, req)
        self.waiting_queue.append(req)


def arriving(rid, ids, parameters):
    """A request on its way in."""
    return SimpleNamespace(rid=rid, input_ids=array("q", ids), sampling_params=parameters, time_stats=Times())


def engine_told(monkeypatch, *said, **options):
    """The process's engine, whose namespace holds what was said, each an event of `engine.events`."""
    memory = Memory.open(tiny_profile("llama", **options), Switches(), store=MemoryStore())
    geometry, events = memory.profile.geometry, []
    for text in said:
        (cut,) = memory.session(NAMESPACE).unknown(chat_ids(tiny_checkpoint("llama"), [("user", text)], reply=False))
        shape = (len(geometry.layers), cut.event.num_tokens, geometry.num_kv_heads, geometry.head_dim)
        memory.session(NAMESPACE).keep([(cut.event, Trace(keys=torch.zeros(shape), values=torch.zeros(shape)))])
        events.append(cut.event)
    engine = runtime.Runtime(memory, Scheduler())
    monkeypatch.setattr(runtime, "_runtime", engine)
    engine.events = events
    return engine
