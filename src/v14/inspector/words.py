"""What was said in a run of tokens, without the marks of the chat template around it."""

from collections.abc import Callable, Sequence

from v14.events.cut import UNWRITTEN_ROLES
from v14.events.turns import TurnFormat
from v14.types import Event

Decode = Callable[[Sequence[int]], str]

PUNCTUATION = ".,;:!?\"'()[]"


def words_of(event: Event, turns: TurnFormat) -> list[int]:
    """Token ids of an event without what opens and closes its turn; a later piece of a long turn has no opening."""
    body = event.body
    opening = max((o for o in turns.openings.values() if body[: len(o)] == o), key=len, default=())
    return list(body[len(opening) :])


def words_with(token_ids: Sequence[int], wanted: Sequence[int], decode: Decode) -> list[str]:
    """The words of a text that hold one of the tokens `wanted`, each once, in the order of these."""
    words: list[tuple[str, set[int]]] = []
    for token in token_ids:
        text = decode([token])
        if words and not text[:1].isspace():
            words[-1] = words[-1][0] + text, words[-1][1] | {token}
        else:
            words.append((text, {token}))
    found = (text.strip().strip(PUNCTUATION) for one in wanted for text, tokens in words if one in tokens)
    return [word for word in dict.fromkeys(found) if word]


def asked_in(token_ids: Sequence[int], new_start: int, turns: TurnFormat) -> list[int]:
    """Places in a prompt of what its new part says, turn behind turn; instructions are left out."""
    said = (turn for turn in turns.turns(token_ids[new_start:]) if turn.role not in UNWRITTEN_ROLES)
    return [new_start + place for turn in said for place in range(turn.content_start, turn.closing_start)]
