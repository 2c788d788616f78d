"""Records of plans: found by request id and namespace, bounded, and gone with what they are about."""

import json
import logging
import threading
import time

import pytest
import torch

from tests.memory_store import MemoryStore
from tests.tiny import chat_ids, tiny_checkpoint, tiny_profile
from v14.clock import PARTS
from v14.config import Switches
from v14.explain import Account, Records, Standing, in_words
from v14.memory import Memory
from v14.types import Cue, Plan


def memory_of(**switches):
    profile = tiny_profile("llama", recall_floor=-100.0, recall_ratio=0.0, recall_max_events=3)
    return Memory.open(profile, Switches(**switches), store=MemoryStore())


def told(memory, *texts, namespace="ann"):
    """Store a user's turns with random traces."""
    geometry, checkpoint = memory.profile.geometry, tiny_checkpoint("llama")
    generator = torch.Generator().manual_seed(5)

    def read_kv(start, end):
        shape = (len(geometry.layers), end - start, geometry.num_kv_heads, geometry.head_dim)
        return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)

    for text in texts:
        ids = chat_ids(checkpoint, [("system", "the"), ("user", text)])
        memory.session(namespace).observe(ids, range(len(ids)), read_kv)


def asked(memory, request_id, text="where is the house", namespace="ann", num_cue=5):
    voters, dim = memory.profile.voters, memory.profile.geometry.head_dim
    generator = torch.Generator().manual_seed(6)
    cue = Cue(
        queries=torch.randn(len(voters.heads), num_cue, dim, generator=generator),
        context_lse=torch.full((len(voters.heads), num_cue), 2.0),
    )
    ids = chat_ids(tiny_checkpoint("llama"), [("system", "the"), ("user", text)])
    session = memory.session(namespace, request_id=request_id)
    return session, session.plan(cue, ids, session.layout(ids)), ids


def test_a_plan_is_explained_by_its_requests_id():
    memory = memory_of()
    told(memory, "my house is blue", "a garden")
    session, plan, ids = asked(memory, "r1")
    event = plan.events[0]
    session.account.stood(
        Standing(index=3, position=3, num_tokens=event.num_tokens, event_ids=(event.id,), way="kv", composed=())
    )
    plain = memory.records.find("r1", "ann").to_json()
    told_json = in_words(json.loads(json.dumps(plain)), lambda ids: f"<{len(ids)}>")
    assert told_json["prompt"]["token_ids"] == ids
    assert [row["token_id"] for row in told_json["prompt"]["cue"]] == ids[-5:]
    for row in told_json["prompt"]["cue"]:
        assert set(row["weights"]) == {event.id for event in plan.events}
        assert row["weight"] == pytest.approx(sum(row["weights"].values()), abs=1e-5)
        assert row["text"] == "<1>"
    assert [vote["value"] for vote in told_json["votes"]] == [vote.value for vote in plan.votes]
    sure = memory.profile.options.recall_sure
    thresholds = {"floor": -100.0, "sure": sure, "ratio": 0.0, "max_events": 3, "budget_tokens": 4096}
    assert told_json["thresholds"] == thresholds
    assert [event["id"] for event in told_json["recalled"]] == [event.id for event in plan.events]
    assert told_json["reason"] == plan.reason
    assert told_json["spans"][0]["way"] == "kv"
    assert {"load", "vote", "choose", "explain"} <= set(told_json["ms"]) <= set(PARTS)
    assert told_json["recalled"][0]["text"] == f"<{event.num_tokens}>"
    assert "text" not in plain["recalled"][0]


def test_nothing_recalled_is_explained_by_the_best_vote():
    memory = memory_of()
    object.__setattr__(memory.profile, "options", memory.profile.options.model_copy(update={"recall_floor": 1e9}))
    told(memory, "my house is blue")
    _, plan, _ = asked(memory, "r1")
    assert not plan.events
    record = memory.records.find("r1", "ann")
    assert set(record.weights) == {plan.votes[0].event_id}
    assert "no vote reaches the floor" in record.to_json()["reason"]


def test_another_namespace_and_an_unknown_id_are_alike():
    memory = memory_of()
    told(memory, "my house is blue")
    asked(memory, "r1")
    for request_id, namespace in (("r1", "bob"), ("r2", "ann")):
        with pytest.raises(KeyError):
            memory.records.find(request_id, namespace)
    told(memory, "a garden", namespace="bob")
    asked(memory, "r1", namespace="bob")
    assert memory.records.find("r1", "ann").namespace == "ann"
    assert memory.records.find("r1", "bob").namespace == "bob"


def test_a_request_without_an_id_leaves_no_record():
    memory = memory_of()
    told(memory, "my house is blue")
    asked(memory, "")
    assert len(memory.records) == 0


def account(records, request_id, num_tokens=10, namespace="ann", events=()):
    session = Memory.open(tiny_profile("llama"), Switches(), store=MemoryStore()).session(
        namespace, request_id=request_id
    )
    session.account._records = records
    session.account.decided(namespace, range(num_tokens), 0, Plan(events=events), session.memory.profile.options, dict)


def test_records_are_bounded_in_number_and_in_tokens():
    records = Records(max_records=3, max_tokens=100)
    for number in range(5):
        account(records, f"r{number}")
    assert [name for name in ("r0", "r1", "r2", "r3", "r4") if _known(records, name)] == ["r2", "r3", "r4"]
    account(records, "r4", num_tokens=20)
    assert len(records) == 3
    account(records, "long", num_tokens=75)
    assert [name for name in ("r2", "r3", "r4", "long") if _known(records, name)] == ["r4", "long"]
    account(records, "too long", num_tokens=101)
    assert len(records) == 0


def _known(records, request_id, namespace="ann"):
    try:
        return records.find(request_id, namespace) is not None
    except KeyError:
        return False


def test_forgetting_takes_the_records_of_the_namespace_and_of_whoever_recalled_the_event():
    memory = memory_of()
    told(memory, "my house is blue", namespace="shared")
    event = memory.store.events("shared")[0]
    records = memory.records
    account(records, "own", namespace="shared")
    account(records, "reader", namespace="ann", events=(event,))
    account(records, "other", namespace="bob")
    assert records.forget("shared", [event.id]) == 2
    assert _known(records, "other", "bob")
    assert len(records) == 1


def test_the_trace_names_votes_recalls_and_what_was_composed(caplog):
    memory = memory_of(trace=True)
    told(memory, "my house is blue")
    with caplog.at_level(logging.INFO, logger="v14"):
        session, plan, _ = asked(memory, "r1")
        standing = Standing(index=3, position=3, num_tokens=4, event_ids=("e1", "e2"), way="kv", composed=("e2",))
        session.account.stood(standing)
        session.account.stood(standing)
    decision, span = [record.message for record in caplog.records if record.message.startswith("trace request=r1")]
    assert f"{plan.votes[0].event_id}={plan.votes[0].value:.3f}" in decision
    assert f"recalled=[{', '.join(event.id for event in plan.events)}]" in decision
    assert "events=[e1, e2] composed=[e2]" in span


def test_without_the_switch_nothing_is_traced(caplog):
    memory = memory_of()
    told(memory, "my house is blue")
    with caplog.at_level(logging.INFO, logger="v14"):
        asked(memory, "r1")
    assert not [record for record in caplog.records if "trace" in record.message]


def due(records, weigh):
    session = memory_of().session("a", request_id="r")
    made = Account(records, [], "r", trace=False)
    made.decided("a", range(5), 0, Plan(), session.memory.profile.options, weigh)
    return made


def test_a_record_is_made_once_its_request_is_over_and_waited_for_by_who_asks():
    records, asked, may_go_on = Records(), threading.Event(), threading.Event()

    def weigh():
        asked.set()
        may_go_on.wait(10)
        return {"event": torch.tensor([0.25, 0.75])}

    made = due(records, weigh)
    assert not asked.is_set()
    made.over()
    assert asked.wait(10)  # and nobody waits for it
    threading.Timer(0.1, may_go_on.set).start()
    record = records.find("r", "a")
    assert record.weights["event"].tolist() == [0.25, 0.75]
    assert record.cue_start == 3
    assert record.seconds["explain"] > 0


def test_a_record_that_is_asked_for_earlier_is_made_then():
    records = Records()
    made = due(records, dict)
    assert records.find("r", "a").request_id == "r"
    made.over()
    assert len(records) == 1


def test_records_that_nobody_calls_over_are_made_when_there_are_many(monkeypatch):
    monkeypatch.setattr("v14.explain.MAX_DUE", 2)
    records, seen = Records(), []
    for number in range(4):
        account = Account(records, [], f"r{number}", trace=False)
        account.decided("a", range(5), 0, Plan(), memory_of().profile.options, lambda n=number: seen.append(n) or {})
    records._made.result()
    assert seen == [0, 1]
    assert len(records) == 4


def test_what_is_still_to_be_explained_is_forgotten_with_the_rest():
    records = Records()
    due(records, lambda: time.sleep(0.1) or {}).over()
    assert records.forget("a") == 1
    due(records, dict)
    assert records.forget("a") == 1
    assert len(records) == 0


def test_a_record_that_cannot_be_made_is_said_in_the_log_and_missing(caplog):
    records = Records()
    due(records, lambda: {}["gone"]).over()
    with pytest.raises(KeyError):
        records.find("r", "a")
    assert "cannot be explained" in caplog.text
