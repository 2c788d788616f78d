"""Random requests of twenty namespaces at once, each with words that are its alone: none is found where it must not be.

Everything of the memory is real but the model: front, tickets, runtime, index, plans, journal and store. The model's
queries and keys are random, and everything in reach is recalled.
"""

import asyncio
import hashlib
import random
from collections import Counter
from functools import cache
from types import SimpleNamespace

import pytest
import torch

from tests.counts import counted
from tests.engines.sglang.test_front import request_of
from tests.fake_scheduler import Scheduler
from tests.tiny import tiny_checkpoint, tiny_profile, turns_of
from v14.config import Switches
from v14.engines.sglang import planning, runtime
from v14.engines.sglang.front import Front
from v14.engines.sglang.hooks import probe
from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.ticket import KEY, Ticket
from v14.errors import RefusedError
from v14.forgetting import Selection, select
from v14.keys import Grant
from v14.memory import Memory
from v14.namespaces import Namespaces
from v14.store.directory import DirectoryStore
from v14.types import Cue

NUM_NAMESPACES = 20
WORDS_EACH = 25
FIRST_WORD = 310
COMMON = range(FIRST_WORD + NUM_NAMESPACES * WORDS_EACH, 900)
"""Token ids that anybody uses; below them, each namespace has its own."""

SHARED = {3: (0,), 4: (0, 1), 5: (1,), 6: (0,)}
"""Who reads whose besides: 0 and 1 are handbooks."""


def name_of(number):
    return f"namespace {number}"


@cache
def format_words():
    turns = turns_of(tiny_checkpoint("llama"))
    return {*turns.closing, *(token for opening in turns.openings.values() for token in opening)}


def words_of(number):
    words = range(FIRST_WORD + number * WORDS_EACH, FIRST_WORD + (number + 1) * WORDS_EACH)
    return sorted(set(words) - format_words())


def owner_of(token):
    number = (token - FIRST_WORD) // WORDS_EACH
    return number if 0 <= number < NUM_NAMESPACES and token not in format_words() else None


def namespaces():
    grants = [
        Grant(
            sha256=hashlib.sha256(f"key {number}".encode()).hexdigest(),
            namespace=name_of(number),
            shared=tuple(map(name_of, SHARED.get(number, ()))),
        )
        for number in range(NUM_NAMESPACES)
    ]
    return Namespaces("keyed", keys={grant.sha256: grant for grant in grants})


class Engine:
    """SGLang without a model: what a request is read behind is kept in `read`, with the cache key it stands under."""

    def __init__(self, memory):
        self.runtime = Runtime(memory, Scheduler())
        self.read = []
        self._num_requests = 0

    async def __call__(self, obj, request):
        await asyncio.sleep(0)
        params = SimpleNamespace(custom_params=obj.sampling_params.get("custom_params"))
        if Ticket.of(params.custom_params) is None:
            self.read.append((obj.extra_key, None, list(obj.input_ids)))
            yield {"meta_info": {"finish_reason": {"type": "stop"}}}
            return
        self._num_requests += 1
        rid = f"r{self._num_requests}"
        recv_req = SimpleNamespace(rid=rid, input_ids=obj.input_ids, sampling_params=params, time_stats=[])
        req = await self._queued(lambda: self.runtime.scheduler.handle_generate_request(recv_req), obj.extra_key)
        if req.v14_reading.is_looking:
            req.v14_reading.cue = self.cue()
            probe.decide(req)
            if rid in self.runtime.ended:
                looking = req
                req = await self._queued(lambda: planning.read_again(self.runtime, looking), obj.extra_key)
        reading = req.v14_reading
        if reading.ticket.writes:
            self.runtime.write_behind(reading.session.namespace, lambda: self.observe(reading))
        meta = {"finish_reason": {"type": "stop"}} | (req.customized_info or {})
        yield {"meta_info": meta}

    async def _queued(self, handle, extra_key):
        """What the engine is to read after `handle` has queued it; others run between this and what comes next."""
        handle()
        req = self.runtime.scheduler.waiting_queue.pop()
        self.read.append((extra_key, req.v14_reading.session.namespace, list(req.origin_input_ids)))
        await asyncio.sleep(0)
        return req

    def cue(self):
        voters, geometry = self.runtime.memory.profile.voters, self.runtime.memory.profile.geometry
        shape = len(voters.heads), 2
        return Cue(queries=torch.randn(*shape, geometry.head_dim), context_lse=torch.zeros(shape))

    def observe(self, reading):
        geometry = self.runtime.memory.profile.geometry

        def read_kv(start, end):
            tensor = torch.zeros(len(geometry.layers), end - start, geometry.num_kv_heads, geometry.head_dim)
            return tensor, tensor

        reading.session.observe(reading.token_ids, reading.sequence.positions, read_kv)


def prompt_of(rng, number):
    """A system turn, and a user's turn with two words that only this namespace has."""
    turns = turns_of(tiny_checkpoint("llama"))
    content = [*rng.sample(words_of(number), 2), *rng.sample(COMMON, 2)]
    rng.shuffle(content)
    system = [*turns.openings["system"], COMMON[0], *turns.closing]
    return [*system, *turns.openings["user"], *content, *turns.closing, *turns.openings["assistant"]]


async def ask(front, engine, rng, number, counts):
    """One request, now and then with a header or field that asks for more than its key gives."""
    headers = {
        "authorization": f"Bearer key {number}",
        "x-v14-memory": rng.choice(["both"] * 4 + ["read", "write", "off"]),
    }
    fields = {"input_ids": prompt_of(rng, number)}
    other = name_of(rng.randrange(NUM_NAMESPACES))
    if rng.random() < 0.1:
        headers |= rng.choice([{"x-v14-namespace": other}, {"x-v14-shared": other}, {"authorization": "Bearer key 99"}])
    if rng.random() < 0.2:
        fields |= {"v14_user": other, "extra_key": f"v14:memory:{len(other)}:{other}:"}
    try:
        outputs = [out async for out in front.generate(engine, request_of(**fields), None, headers)]
    except RefusedError:
        counts["refused"] += 1
        return
    report = outputs[-1]["meta_info"][KEY]
    within = {name_of(number), *map(name_of, SHARED.get(number, ()))}
    assert report["namespace"] == name_of(number)
    counts["crossings"] += not {event["namespace"] for event in report["recalled"]} <= within
    counts["recalling"] += bool(report["recalled"])
    counts["recalled from shared"] += any(event["namespace"] != name_of(number) for event in report["recalled"])


def forget_some(engine, rng, number, counts):
    """Half of what a namespace holds."""
    memory = engine.runtime.memory
    engine.runtime.settle(name_of(number))
    events = select(memory, name_of(number), Selection(everything=True))
    gone = rng.sample(events, len(events) // 2)
    counts["forgotten"] += memory.forget(name_of(number), [event.id for event in gone])


def mixes(tmp_path, monkeypatch, num_mixes, seed):
    """Run mixes of one to six requests at once; counts of what happened, after looking at all that was read."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    profile = tiny_profile("llama", write_generated=False, recall_max_events=12, recall_budget_tokens=256)
    store = DirectoryStore.open(tmp_path / "memory", profile.weights_id, fsync=False)
    memory = Memory.open(profile, Switches(), store=store)
    engine = Engine(memory)
    monkeypatch.setattr(runtime, "_runtime", engine.runtime)
    front = Front(namespaces(), lambda: True)
    counts = Counter()
    keys = {}

    async def mix():
        numbers = [rng.randrange(NUM_NAMESPACES) for _ in range(rng.randint(1, 6))]
        await asyncio.gather(*(ask(front, engine, rng, number, counts) for number in numbers))

    for _ in range(num_mixes):
        asyncio.run(mix())
        if rng.random() < 0.1:
            forget_some(engine, rng, rng.randrange(NUM_NAMESPACES), counts)
        for key, namespace, sequence in engine.read:
            counts["read"] += 1
            owners = {owner_of(token) for token in sequence} - {None}
            mine = keys.setdefault(key, set())
            mine |= {namespace} - {None}
            counts["crossings"] += len(mine) > 1
            if namespace is not None:
                number = int(namespace.split()[1])
                counts["crossings"] += not owners <= {number, *SHARED.get(number, ())}
        engine.read.clear()
    for number in range(NUM_NAMESPACES):
        engine.runtime.settle(name_of(number))
        held = {owner_of(token) for event in store.events(name_of(number)) for token in event.token_ids} - {None}
        counts["crossings"] += not held <= {number}
    memory.close()
    assert not {name: count for name, count in memory.counters.items() if name.startswith("failed")}
    return counts


def test_no_mix_of_requests_crosses(tmp_path, monkeypatch):
    counts = mixes(tmp_path, monkeypatch, 100, seed=14)
    assert counts["crossings"] == 0
    assert counts["recalling"] > 50
    assert counts["recalled from shared"] > 5
    assert counts["refused"] > 5
    assert counts["forgotten"] > 0


@pytest.mark.slow
def test_no_mix_of_a_thousand_crosses(tmp_path, monkeypatch):
    counts = mixes(tmp_path, monkeypatch, 1000, seed=15)
    counted(f"isolation: {counts['crossings']} crossings in 1,000 mixes of {counts['read']} readings: {dict(counts)}")
    assert counts["crossings"] == 0
    assert counts["recalling"] > 500


def test_the_check_sees_a_crossing(tmp_path, monkeypatch):
    """Sessions that read one namespace too many."""
    real = Memory.session

    def leaking(memory, namespace, shared=(), **more):
        return real(memory, namespace, (*shared, name_of(7)), **more)

    monkeypatch.setattr(Memory, "session", leaking)
    assert mixes(tmp_path, monkeypatch, 40, seed=16)["crossings"] > 10
