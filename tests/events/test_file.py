"""Lines of a file of events: what is read, and what is refused by its line."""

import json

import pytest

from v14.errors import EventFileError
from v14.events import file
from v14.events.cut import Cutter
from v14.events.file import Plain
from v14.events.replay import events_of, head_of, replays
from v14.events.turns import TurnFormat
from v14.types import ROOT_ID, Event

TURNS = TurnFormat(openings={"system": (1, 4), "user": (1, 2), "assistant": (1, 3)}, closing=(9,))
CUTTER = Cutter(turns=TURNS)


def event(*body, parent=ROOT_ID, chat_id="c", said_at=5.0):
    ids = (1, 2, *body, 9)
    return Event(
        namespace="ann", chat_id=chat_id, role="user", said_at=said_at, token_ids=ids, parent=parent, closing_len=1
    )


def line(known, **changes):
    fields = ("id", "namespace", "chat_id", "role", "said_at", "token_ids", "parent", "closing_len")
    return json.dumps({**{name: getattr(known, name) for name in fields}, "text": decode(known.token_ids), **changes})


def decode(ids):
    return " ".join(map(str, ids))


def read(*lines):
    data = b"\n".join(text.encode() for text in lines)
    return file.read(
        file.lines_of(data), namespace="bob", roles=("user", "assistant"), vocab_size=100, decode=decode, now=7.0
    )


def test_an_exported_event_comes_back_as_it_was_in_the_namespace_that_asks():
    known = event(20, 21)
    (found,) = read(line(known), "", "  ")
    assert found == Event(**{**known.__dict__, "namespace": "bob"})
    assert found.id == known.id


def test_plain_words_are_filled_in():
    assert read('{"text": "Hello."}', '{"role": "assistant", "text": "Hi.", "said_at": 3, "chat_id": "x"}') == [
        Plain(role="user", text="Hello.", said_at=7.0),
        Plain(role="assistant", text="Hi.", said_at=3.0, chat_id="x"),
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "sha256:" + "1" * 64}, "does not match its content"),
        ({"text": "20 22"}, "another tokenizer"),
        ({"token_ids": [20, 100]}, "integers from 0 to 99"),
        ({"token_ids": [20, True]}, "integers from 0 to 99"),
        ({"token_ids": "20"}, "integers from 0 to 99"),
        ({"token_ids": []}, "1 to 128 tokens"),
        ({"token_ids": [20] * 129}, "1 to 128 tokens"),
        ({"role": "system"}, "role 'system' is none of"),
        ({"said_at": "now"}, "Unix seconds"),
        ({"said_at": float("inf")}, "Unix seconds"),
        ({"parent": "sha256:x"}, "parent is an id"),
        ({"closing_len": 1.0}, "closing_len is an integer"),
        ({"closing_len": 4}, "leaves no body"),
        ({"chat_id": "é"}, "printable ASCII"),
    ],
)
def test_what_no_export_writes_is_refused_by_its_line(changes, said):
    with pytest.raises(EventFileError, match=rf"line 2 is no event \(.*{said}.*give lines as"):
        read(line(event(20)), line(event(20), **changes))


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"text": " "}', '{"text": 1}', "{}", '{"text": "\\ud800"}', "[" * 100_000]
)
def test_lines_that_are_none(text):
    with pytest.raises(EventFileError, match="line 1 is no event"):
        read(text)


def test_files_that_are_too_large(monkeypatch):
    with pytest.raises(EventFileError, match="up to 2 lines, not 3"):
        file.lines_of(b"1\n2\n3", max_lines=2)
    monkeypatch.setattr(file, "MAX_BYTES", 4)
    with pytest.raises(EventFileError, match="give it in several parts"):
        file.lines_of(b"1\n2\n3")


def test_plain_words_make_the_events_that_telling_them_makes():
    head = head_of((7, 1, 4, 30, 9, 1, 2, 40, 9, 1, 3), TURNS)
    assert head == (7, 1, 4, 30, 9)
    told = CUTTER.cut((*head, 1, 2, 50, 51, 9, 1, 3), namespace="bob", said_at=3.0)
    made = events_of(Plain(role="user", text="", said_at=3.0), (50, 51), head, CUTTER, "bob")
    assert [event.id for event in made] == [cut.event.id for cut in told]


def test_chats_are_read_apart_in_order_each_event_once_and_no_sequence_is_too_long():
    events = [event(20, chat_id="a"), event(30, chat_id="b"), event(21, chat_id="a"), event(20, chat_id="a")]
    found = list(replays(events, (7, 8), max_tokens=8))
    assert [replay.token_ids for replay in found] == [(7, 8, 1, 2, 20, 9, 1, 2, 21, 9), (7, 8, 1, 2, 30, 9)]
    for replay in found:
        for start, placed in replay.events:
            assert replay.token_ids[start : start + placed.num_tokens] == placed.token_ids
    assert [len(replay.events) for replay in replays(events, (), max_tokens=7)] == [1, 1, 1]
    assert not list(replays([], (7,)))
