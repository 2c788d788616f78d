"""Events that only ask."""

import pytest

from v14.events.asking import Asking
from v14.events.turns import TurnFormat
from v14.types import Event

STOP, MARK, BREAK, CLOSE = 20, 21, 22, 9
FORMAT = TurnFormat(openings={"user": (7, BREAK)}, closing=(CLOSE,))
ASKING = Asking(turns=FORMAT, sentence_ends={STOP, MARK, BREAK}, question_ends={MARK})


def event(*token_ids, closing_len=1):
    return Event(namespace="n", chat_id="c", role="user", said_at=0.0, token_ids=token_ids, closing_len=closing_len)


@pytest.mark.parametrize(
    ("token_ids", "asks"),
    [
        ((7, BREAK, 1, 2, MARK, CLOSE), True),
        ((7, BREAK, 1, MARK, 2, MARK, CLOSE), True),
        ((1, 2, MARK, CLOSE), True),
        ((7, BREAK, 1, STOP, 2, MARK, CLOSE), False),
        ((7, BREAK, 1, MARK, 2, STOP, CLOSE), False),
        ((7, BREAK, 1, 2, CLOSE), False),
        ((7, BREAK, CLOSE), False),
    ],
    ids=["one", "two", "behind no opening", "told first", "told afterwards", "no end", "nothing"],
)
def test_what_only_asks(token_ids, asks):
    assert ASKING(event(*token_ids)) is asks


def test_where_no_token_ends_a_question_none_asks():
    assert not Asking(turns=FORMAT, sentence_ends={STOP, MARK})(event(1, MARK, closing_len=0))
