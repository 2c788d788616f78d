"""The benchmark end to end on tiny random models, and its reading held against the engine's own."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from benchmarks.recall import run, table
from benchmarks.recall.english.world import English
from benchmarks.recall.reading import Reader
from tests.memory_store import MemoryStore
from tests.tiny import tiny_v14
from v14.engines.transformers.reading import forward, new_cache
from v14.memory import Memory


class LetterEncoder:
    """In place of MiniLM: counts of letters."""

    def __init__(self, device="cpu"):
        pass

    def encode(self, texts):
        counts = np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_V14_MEMORY_HOME", str(tmp_path / "home"))


@pytest.fixture(params=["llama", "qwen3_5"])
def reader(request, tmp_path, home):
    return Reader(
        tiny_v14(request.param, tmp_path / "v14", reinstate="reread", recall_max_events=3, recall_budget_tokens=200)
    )


def test_events_read_in_batches_are_those_that_the_engine_stores(reader):
    chats = [replace(chat, said_at=float(n)) for n, chat in enumerate(islice(English(0).distractors(), 9))]
    session = reader.memory.session("batched")
    found = {event.id: trace for some in reader.read(chats, session) for event, trace in some}
    engine = Memory(reader.profile, reader.memory.switches, MemoryStore())
    one = engine.session("batched")
    for chat in chats:
        ids = reader.ids(chat.turns)
        cache = new_cache(reader.model, one)
        with torch.no_grad():
            forward(reader.model, cache, ids)
        one.observe(ids, range(len(ids)), cache.read)
    stored = {event.id for event in engine.store.events("batched")}
    assert stored == set(found)
    slots = reader.profile.voters.slots(reader.profile.geometry)
    for event_id, trace in found.items():
        wanted = engine.store.keys_of_layers("batched", event_id, slots)
        torch.testing.assert_close(trace.keys[slots], wanted, atol=1e-4, rtol=1e-4)


def test_replies_written_in_batches_are_those_of_generate(reader):
    chats = [replace(chat, said_at=float(n)) for n, chat in enumerate(islice(English(0).distractors(), 6))]
    session = reader.memory.session("asked")
    for traced in reader.read(chats, session):
        session.keep(traced)
    questions = [reader.ids((("user", chat.turns[0][1] + " Say it again."),), generate=True) for chat in chats]
    prompts = []
    for ids in questions:
        layout = session.layout(ids)
        plan = session.plan(reader.cue(ids, layout.new_start), ids, layout)
        assert plan.events
        prompts.append(list(session.sequence(ids, session.placed(layout, plan)).token_ids))
    replies = reader.answers(prompts, max_new_tokens=6)
    reader.model.v14 = reader.memory
    for ids, reply in zip(questions, replies, strict=True):
        output = reader.model.generate(
            torch.tensor([ids]), v14_namespace="asked", v14_memory="read", max_new_tokens=6, do_sample=False
        )
        assert reader.model.v14_last.reinstated == "reread"
        assert reader.text(output[0, len(ids) :].tolist()).strip() == reply


def test_a_shared_beginning_is_read_once_and_changes_nothing(tmp_path, home):
    reader = Reader(tiny_v14("llama", tmp_path / "v14"))
    long = "A long note. " * 120
    prompts = [reader.ids((("user", long + tail),), generate=True) for tail in ("Yes?", "No, or maybe?", "Why?")]
    assert min(map(len, prompts)) > 512
    together = reader.answers(prompts, max_new_tokens=5)
    assert together == [reader.answers([prompt], max_new_tokens=5)[0] for prompt in prompts]


def test_everything_runs_on_a_tiny_model(tmp_path, home, monkeypatch):
    monkeypatch.setattr(run, "Encoder", LetterEncoder)
    size = run.Size(
        questions=2,
        events=60,
        musique=0,
        few_questions=2,
        few_events=12,
        placed=1,
        rows=[row for row in English.rows if not row.startswith("line")],
        growth=(10, 40),
    )
    directory = tiny_v14("llama", tmp_path / "v14", recall_max_events=2)
    measured = run.measure("tiny", directory, English(0), 0, size)
    rows = table.judged(measured.rows)
    names = {row.row for row in rows}
    assert names >= {name for name in table.BOUNDS if not name.startswith(("MuSiQue", "answers: line"))}
    assert all(0 <= row.value <= 1 for row in rows if row.row.startswith(("answers", "evidence", "recalls", "obeys")))
    # With random weights and open thresholds everything is recalled, whatever is asked.
    assert {row.value for row in rows if row.row == "recalls anything: absent"} == {1.0}
    assert all(row.of == 2 for row in rows if row.row == "answers: two-step")
    assert measured.growth.sizes == (10, 40)
    sample = [row for row in rows if row.row.endswith("a sample")]
    assert {row.system for row in sample} >= {"memory", "memory, placed"}
    assert all(row.of == 1 for row in sample)
