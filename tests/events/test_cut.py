"""Cutting: every token of a remembered turn is in exactly one event, and reading on changes no id."""

from hypothesis import given
from hypothesis import strategies as st

from v14.events.cut import UNWRITTEN_ROLES, Cutter
from v14.events.turns import TurnFormat
from v14.types import MAX_EVENT_TOKENS, ROOT_ID, event_id

OPEN, CLOSE, NEWLINE, USER, ASSISTANT, SYSTEM, STOP = range(7)
FORMAT = TurnFormat(
    openings={
        "user": (OPEN, USER, NEWLINE),
        "assistant": (OPEN, ASSISTANT, NEWLINE),
        "system": (OPEN, SYSTEM, NEWLINE),
    },
    closing=(CLOSE, NEWLINE),
)
CUTTER = Cutter(turns=FORMAT, sentence_ends=frozenset({STOP}))

words = st.lists(st.integers(STOP, 60), min_size=1, max_size=400)
chats = st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), words), min_size=1, max_size=5)


def render(chat):
    ids = []
    for role, content in chat:
        ids += [*FORMAT.openings[role], *content, *FORMAT.closing]
    return ids


def cut(ids, **kwargs):
    return CUTTER.cut(ids, namespace="n", said_at=1.0, **kwargs)


@given(chats)
def test_events_cover_every_remembered_turn_once(chat):
    ids = render(chat)
    turns = FORMAT.turns(ids)
    assert [(t.role, ids[t.content_start : t.closing_start]) for t in turns] == [(r, c) for r, c in chat]
    covered = [position for c in cut(ids) for position in range(c.start, c.end)]
    expected = [p for t in turns if t.role not in UNWRITTEN_ROLES for p in range(t.start, t.end)]
    assert covered == expected
    for c in cut(ids):
        assert list(c.event.token_ids) == ids[c.start : c.end]
        assert 1 <= c.event.num_tokens <= MAX_EVENT_TOKENS


@given(chats, chats)
def test_reading_on_keeps_the_ids_of_what_was_read_before(chat, more):
    first = [c.event.id for c in cut(render(chat))]
    assert [c.event.id for c in cut(render(chat + more))][: len(first)] == first


@given(chats)
def test_a_reply_has_one_id_before_and_after_it_is_closed(chat):
    chat = [*chat, ("assistant", [9, 8, 7])]
    closed = render(chat)
    stopped = closed[: -len(FORMAT.closing)]
    assert cut(closed)[-1].event.id == cut(stopped)[-1].event.id
    assert cut(closed)[-1].event.closing_len == len(FORMAT.closing)


@given(chats)
def test_ids_are_derived_from_parent_and_body(chat):
    for c in cut(render(chat)):
        event = c.event
        assert event.id == event_id(event.parent, event.token_ids[: event.num_tokens - event.closing_len])


def test_the_same_words_behind_other_words_are_another_event():
    alone = cut(render([("user", [9, 9])]))[0].event
    behind = cut(render([("system", [8]), ("user", [9, 9])]))[0].event
    assert alone.parent == ROOT_ID
    assert alone.id != behind.id
    assert alone.token_ids == behind.token_ids


def test_a_long_turn_is_cut_at_the_last_sentence_end_that_fits():
    content = [50] * 100 + [STOP] + [51] * 60
    events = [c.event for c in cut(render([("user", content)]))]
    assert [e.num_tokens for e in events] == [3 + 101, 60 + 2]
    assert events[0].token_ids[-1] == STOP


def test_a_prompt_that_ends_with_an_opening_has_no_event_for_it():
    ids = render([("user", [9])]) + list(FORMAT.openings["assistant"])
    assert [c.event.role for c in cut(ids)] == ["user"]


def test_without_openings_all_text_is_one_turn():
    cutter = Cutter(turns=TurnFormat(openings={}), event_tokens=10)
    cuts = cutter.cut(range(25), namespace="n", said_at=0.0)
    assert [(c.start, c.end) for c in cuts] == [(0, 10), (10, 20), (20, 25)]
    assert {c.event.role for c in cuts} == {"text"}


def test_chat_id_is_given_or_that_of_the_first_event():
    ids = render([("user", [9]), ("assistant", [8]), ("user", [7])])
    events = [c.event for c in cut(ids)]
    assert {e.chat_id for e in events} == {events[0].id}
    assert {c.event.chat_id for c in cut(ids, chat_id="mine")} == {"mine"}


def test_turn_format_survives_json():
    assert TurnFormat.from_json(FORMAT.to_json()) == FORMAT
