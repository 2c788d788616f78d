"""A pass whose requests are all read again ends behind the last voter layer, and changes nothing else."""

import re
import time
import urllib.request
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tests.one_server import REREAD, served
from tests.serving import distributions, flush_cache, generate, turn
from tests.tiny import tiny_checkpoint, turns_of
from v14.engines.sglang import runtime
from v14.engines.sglang.hooks import stop
from v14.engines.sglang.passes import Pass

HEAD = 30


def reading(*, new_position, num_tokens):
    sequence = SimpleNamespace(token_ids=(0,) * num_tokens)
    return SimpleNamespace(new_position=new_position, sequence=sequence, is_stopped=False, beside=None)


def engine_of(mode, **readings):
    requests = {rid: SimpleNamespace(v14_reading=read) for rid, read in readings.items()}
    memory = SimpleNamespace(guard=lambda concern: nullcontext())
    return SimpleNamespace(memory=memory, probing=requests, reinstate=mode)


def batch_of(*parts, logprobs=False):
    """A pass over `parts`: request id, first position, number of tokens."""
    return SimpleNamespace(
        rids=[rid for rid, _, _ in parts],
        extend_prefix_lens_cpu=[start for _, start, _ in parts],
        extend_seq_lens_cpu=[length for _, _, length in parts],
        return_logprob=logprobs,
        capture_hidden_mode=SimpleNamespace(need_capture=lambda: False),
        spec_info=None,
    )


@pytest.mark.parametrize(
    ("mode", "head", "start", "stops"),
    [
        ("reread", 40, 0, True),
        ("reread", stop.HEAD_WORTH, 0, True),
        ("reread", stop.HEAD_WORTH + 1, 0, False),
        ("reread", stop.HEAD_WORTH + 1, 1, True),
        ("auto", 40, 0, True),
        ("kv", 40, 0, False),
        ("kv", 40, 40, True),
        ("kv", 0, 0, True),
    ],
)
def test_a_pass_may_stop_where_no_head_is_lost(mode, head, start, stops):
    engine = engine_of(mode, a=reading(new_position=head, num_tokens=head + 20))
    assert bool(stop.may_stop(engine, batch_of(("a", start, head + 20 - start)))) is stops


def test_a_pass_goes_on_for_whoever_does_not_look_or_wants_more_of_it():
    engine = engine_of("reread", a=reading(new_position=5, num_tokens=20), b=reading(new_position=5, num_tokens=30))
    assert len(stop.may_stop(engine, batch_of(("a", 0, 20), ("b", 0, 30)))) == 2
    assert stop.may_stop(engine, batch_of(("a", 0, 20), ("other", 0, 30))) == ()
    assert stop.may_stop(engine, batch_of(("a", 0, 20), ("b", 0, 29))) == ()  # a chunk: more of it follows
    assert stop.may_stop(engine, batch_of(("a", 0, 20), logprobs=True)) == ()
    assert stop.may_stop(engine, batch_of()) == ()


def test_one_that_recalls_nothing_lets_the_pass_go_on(monkeypatch):
    engine = engine_of("reread", **{rid: reading(new_position=5, num_tokens=20) for rid in "abc"})
    planned = []

    def plan(engine, read):
        planned.append(read)
        return len(planned) != 2

    monkeypatch.setattr(stop.planning, "plan", plan)
    monkeypatch.setattr(stop.cues, "keep", lambda *_: None)
    engine.slots = lambda *_: None
    parts = [Pass(rid=rid, place=0, start=0, length=20, first_row=0) for rid in "abc"]
    assert stop._all_recall(engine, tuple(parts)) is False
    assert len(planned) == 2
    assert list(engine.probing) == ["c"]  # its cue is kept when the pass is over
    assert not any(read.is_stopped for read in planned)


def test_a_stopped_pass_is_processed_before_anything_else_is_run(monkeypatch):
    processed = []
    scheduler = SimpleNamespace(
        result_queue=deque([("batch", "result")]),
        last_batch="last",
        process_batch_result=lambda *of: processed.append(of),
    )
    engine = SimpleNamespace(last_stopped=True)
    monkeypatch.setattr(runtime, "_runtime", engine)
    asked = {"running_batch": "running", "last_batch": "last"}
    arguments = stop.process_at_once(scheduler, **asked)
    assert arguments == ((scheduler,), {"running_batch": "running", "last_batch": None})
    assert (processed, scheduler.last_batch, list(scheduler.result_queue)) == ([("batch", "result")], None, [])
    # Nothing was stopped, or nothing overlaps: SGLang's own order.
    assert stop.process_at_once(scheduler, **asked) is None
    engine.last_stopped = True
    assert stop.process_at_once(SimpleNamespace(last_batch="last"), **asked) is None
    assert engine.last_stopped is False


@pytest.mark.parametrize(
    ("kwargs", "given"), [({}, {"is_insert": False}), ({"checkpoint": True}, {"checkpoint": False})]
)
def test_what_a_stopped_pass_computed_goes_into_no_prefix_cache(kwargs, given):
    stopped = SimpleNamespace(v14_reading=SimpleNamespace(is_stopped=True))
    whole = SimpleNamespace(v14_reading=SimpleNamespace(is_stopped=False))
    assert stop.release_unread(stopped, "tree", **kwargs) == ((stopped, "tree"), given)
    assert stop.release_unread(whole, "tree", **kwargs) is None
    assert stop.release_unread(SimpleNamespace(), "tree", **kwargs) is None


def test_whatever_fails_in_the_middle_of_a_pass_lets_it_go_on(monkeypatch):
    failed = []

    class Guard:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            failed.extend([error] if error is not None else [])
            return isinstance(error, Exception)

    def keep_cue(*_):
        raise RuntimeError("no room")

    engine = engine_of("reread", a=reading(new_position=5, num_tokens=20))
    engine.hearing, engine.last_voter_layer = (Pass(rid="a", place=0, start=0, length=20, first_row=0),), 3
    engine.slots, engine.memory.guard = lambda *_: None, lambda _: Guard()
    monkeypatch.setattr(stop.cues, "keep", keep_cue)
    monkeypatch.setattr(stop.planning, "plan", lambda *_: False)
    monkeypatch.setattr(runtime, "_runtime", engine)
    layer = SimpleNamespace(layer_id=3)
    assert stop.stop_behind_voters("attended", None, layer=SimpleNamespace(layer_id=2)) == "attended"
    assert failed == []
    assert stop.stop_behind_voters("attended", None, layer=layer) == "attended"
    assert [str(error) for error in failed] == ["no room"]


HYBRID = served("qwen3_5", "reread", ("--enable-metrics",))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(REREAD, id=REREAD.name),
        pytest.param(HYBRID, id=HYBRID.name, marks=pytest.mark.slow),
    ],
)
def serves(request, one_server):
    return request.param.family, one_server.of(request.param)


def num_stopped(server):
    """Stopped passes, once the exporter has looked at them."""
    time.sleep(6)
    with urllib.request.urlopen(server.url + "/metrics", timeout=30) as reply:
        found = re.search(r'v14_other_total\{.*of="passes_stopped".*\} (\S+)', reply.read().decode())
    return float(found[1]) if found else 0.0


@pytest.mark.engine
def test_a_stopped_pass_changes_no_reply_and_leaks_nothing(serves):
    family, server = serves
    checkpoint = tiny_checkpoint(family)
    opening = list(turns_of(checkpoint).openings["assistant"])

    def prompt(seed):
        head = turn(checkpoint, "system", HEAD, seed=1)
        return head + turn(checkpoint, "user", 20, seed=seed) + opening

    def ask(seed, namespace, **more):
        return generate(server, prompt(seed), mode="read", namespace=namespace, num_tokens=6, **more)

    for seed in range(3):
        generate(server, prompt(seed), namespace="told", mode="write")
    before = num_stopped(server)
    # Who wants log-probabilities wants the whole pass.
    flush_cache(server)
    whole = [ask(seed, "told", logprobs=True) for seed in range(10, 14)]
    assert num_stopped(server) == before
    flush_cache(server)
    stopped = [ask(seed, "told") for seed in range(10, 14)]
    assert num_stopped(server) == before + 4
    for one, other in zip(whole, stopped, strict=True):
        assert one["meta_info"]["v14"]["recalled"] == other["meta_info"]["v14"]["recalled"] != []
        assert one["output_ids"] == other["output_ids"]
        assert one["meta_info"]["prompt_tokens"] == other["meta_info"]["prompt_tokens"]
    assert len(distributions(whole[0])) == 6

    # Beside requests that recall nothing, some that do: together as one by one.
    with ThreadPoolExecutor(8) as pool:
        flush_cache(server)
        asked = [pool.submit(ask, seed, name) for seed in range(10, 14) for name in ("told", "nobody")]
        replies = [future.result() for future in asked]
    assert [reply["output_ids"] for reply in replies[::2]] == [reply["output_ids"] for reply in stopped]
    assert all(reply["meta_info"]["v14"]["recalled"] == [] for reply in replies[1::2])
