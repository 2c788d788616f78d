"""What is selected to be forgotten, and that nothing of it is left in what the memory keeps beside the store."""

import random
from dataclasses import replace

import pytest
import torch

from tests.memory_store import MemoryStore
from tests.tiny import tiny_profile
from v14.config import Switches
from v14.errors import SelectionError
from v14.forgetting import Selection, select
from v14.memory import Memory
from v14.reinstate.transcripts import Placement
from v14.types import Cue, Event, Link, Trace

CHATS = ("first", "second", "third")


@pytest.fixture
def memory():
    return Memory.open(tiny_profile("llama"), Switches(), store=MemoryStore())


def tell(memory, namespace, words, *, chat_id="first", said_at=0.0, parent=None, request=""):
    """Store an event of these tokens."""
    event = Event(namespace=namespace, chat_id=chat_id, role="user", said_at=said_at, token_ids=tuple(words))
    event = event if parent is None else replace(event, parent=parent, id="")
    geometry = memory.profile.geometry
    tensor = torch.randn(len(geometry.layers), len(words), geometry.num_kv_heads, geometry.head_dim)
    memory.session(namespace, request_id=request).keep([(event, Trace(keys=tensor, values=tensor))])
    return event


def cue_of(memory):
    voters, geometry = memory.profile.voters, memory.profile.geometry
    num_voters = len(voters.heads)
    return Cue(queries=torch.randn(num_voters, 3, geometry.head_dim), context_lse=torch.zeros(num_voters, 3))


def recalled(memory, namespace, shared=()):
    session = memory.session(namespace, shared)
    return {event.id for event in session.plan(cue_of(memory), [1, 2, 3], session.layout([1, 2, 3])).events}


def test_what_is_selected_fulfils_everything_that_was_given(memory):
    rng = random.Random(14)
    told = [
        tell(memory, "n", [300 + i, 7], chat_id=rng.choice(CHATS), said_at=float(rng.randrange(50))) for i in range(40)
    ]
    tell(memory, "other", [300, 7])
    for _ in range(200):
        ids = tuple(event.id for event in rng.sample(told, rng.randrange(3)))
        chat_id = rng.choice(["", *CHATS])
        since, until = (rng.choice([None, float(rng.randrange(50))]) for _ in range(2))
        if not (ids or chat_id or since is not None or until is not None):
            continue
        found = select(memory, "n", Selection(ids=ids, chat_id=chat_id, since=since, until=until, alike=False))
        expected = {
            event.id
            for event in told
            if (not ids or event.id in ids)
            and (not chat_id or event.chat_id == chat_id)
            and (since is None or event.said_at >= since)
            and (until is None or event.said_at < until)
        }
        assert {event.id for event in found} == expected
    assert len(select(memory, "n", Selection(everything=True))) == len(told)


@pytest.mark.parametrize("fields", [{}, {"everything": True, "chat_id": "first"}])
def test_nothing_in_particular_is_not_everything(fields):
    with pytest.raises(SelectionError, match="say what to forget"):
        Selection(**fields)


def test_who_forgets_a_fact_forgets_where_it_was_said_again(memory):
    once = tell(memory, "n", [400, 401, 402])
    again = tell(memory, "n", [400, 401, 402], chat_id="second", parent=once.id)
    tell(memory, "n", [400, 401])
    assert {e.id for e in select(memory, "n", Selection(ids=(once.id,)))} == {once.id, again.id}
    assert [e.id for e in select(memory, "n", Selection(ids=(once.id,), alike=False))] == [once.id]


def test_what_a_request_recalled_and_wrote_is_found_by_its_id(memory):
    own, common = tell(memory, "n", [400, 401]), tell(memory, "handbook", [500, 501])
    session = memory.session("n", ["handbook"], request_id="r")
    session.record([1, 2], [Placement(index=1, event_ids=(own.id, common.id))])
    written = tell(memory, "n", [402, 403], request="r")

    def found(namespace, **fields):
        return {event.id for event in select(memory, namespace, Selection(request="r", **fields))}

    assert found("n") == {own.id, written.id}
    assert found("n", deed="recalled") == {own.id}
    assert found("n", deed="written") == {written.id}
    # What somebody asked the handbook is not the handbook's to know.
    for namespace, request in (("handbook", "r"), ("n", "unheard of")):
        with pytest.raises(SelectionError, match="no request"):
            select(memory, namespace, Selection(request=request))


def test_what_is_forgotten_is_nowhere_and_the_rest_stays(memory):
    told = [tell(memory, "n", [400 + i, 7, 8]) for i in range(6)]
    elsewhere = tell(memory, "m", [400, 7, 8])
    memory.store.link("n", [Link(source=told[0].id, target=told[1].id, kind="association", weight=1.0)])
    prompt = [1, 2, 3, 4]
    placement = Placement(index=2, event_ids=(told[0].id, told[1].id))
    for namespace in "nm":
        memory.transcripts.record(namespace, prompt, [placement])
    memory.journal.recalled("r", "n", [("n", told[0].id), ("n", told[2].id)])
    assert recalled(memory, "n") == {event.id for event in told}

    assert memory.forget("n", [told[0].id, told[3].id, "sha256:unknown"]) == 2
    left = {told[i].id for i in (1, 2, 4, 5)}
    assert recalled(memory, "n") == left
    assert {event.id for event in memory.store.events("n")} == left
    assert recalled(memory, "m") == {elsewhere.id}
    assert memory.store.links("n") == []
    assert memory.transcripts.find("n", prompt, [4]) == (Placement(index=2, event_ids=(told[1].id,)),)
    assert memory.transcripts.find("m", prompt, [4]) == (placement,)
    assert memory.journal.entry("r", "n").of("n") == [told[2].id]


def test_the_index_keeps_no_row_of_what_it_lost(memory):
    event, other = tell(memory, "n", [400, 401, 402]), tell(memory, "n", [500, 501, 502, 503])
    assert recalled(memory, "n") == {event.id, other.id}
    index = memory.space("n").index
    [page] = index._pool.pages
    assert page.keys[:, :3].any()
    assert page.null_shares[:, 0].any()
    memory.forget("n", [event.id])
    assert not page.keys[:, :3].any()
    assert not page.null_shares[:, 0].any()
    assert page.keys[:, 3:7].any()
    memory.forget("n", [other.id])
    assert not page.keys.any()
    assert not index._waiting


def test_a_conversation_goes_on_without_what_was_forgotten(memory):
    kept, gone = tell(memory, "n", [400, 401]), tell(memory, "n", [402, 403])
    session = memory.session("n")
    both = (Placement(index=1, event_ids=(kept.id, gone.id)), Placement(index=2, event_ids=(gone.id,)))
    memory.forget("n", [gone.id])
    assert session.standing(both) == (Placement(index=1, event_ids=(kept.id,)),)


def test_a_shared_namespace_is_read_and_never_written(memory):
    common, own = tell(memory, "handbook", [500, 501]), tell(memory, "n", [400, 401])
    other = tell(memory, "m", [600, 601])
    assert recalled(memory, "n", ["handbook"]) == {common.id, own.id}
    assert recalled(memory, "n") == {own.id}
    assert recalled(memory, "m", ["handbook"]) == {common.id, other.id}
    session = memory.session("n", ["handbook"])
    new = Event(namespace="n", chat_id="c", role="user", said_at=0.0, token_ids=(7, 8))
    geometry = memory.profile.geometry
    tensor = torch.zeros(len(geometry.layers), 2, geometry.num_kv_heads, geometry.head_dim)
    assert session.keep([(new, Trace(keys=tensor, values=tensor))]) == 1
    assert [event.id for event in memory.store.events("handbook")] == [common.id]
    span = session.span(Placement(index=0, event_ids=(common.id, own.id)), 0)
    assert span.token_ids == (500, 501, 400, 401)
    # No longer shared: what stood there for it is left out.
    assert memory.session("n").standing([Placement(index=0, event_ids=(common.id,))]) == ()


def test_what_two_namespaces_hold_is_recalled_once_from_ones_own(memory):
    tell(memory, "handbook", [500, 501])
    own = tell(memory, "n", [500, 501])
    session = memory.session("n", ["handbook"])
    plan = session.plan(cue_of(memory), [1], session.layout([1]))
    assert [(event.id, event.namespace) for event in plan.events] == [(own.id, "n")]


def test_what_the_store_lets_go_of_by_itself_is_not_recalled(memory):
    told = [tell(memory, "n", [400 + i, 7, 8]) for i in range(4)]
    assert len(recalled(memory, "n")) == 4
    memory.store.forget("n", [told[1].id])
    assert recalled(memory, "n") == {told[i].id for i in (0, 2, 3)}
    assert told[1].id not in memory.space("n").events


def test_the_audit_hears_what_kind_of_selection_it_was():
    assert Selection(ids=("sha256:a",), since=1.0).kind == "event+between"
    assert Selection(everything=True).kind == "namespace"
