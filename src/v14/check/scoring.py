"""What counts as right."""

import re
from collections.abc import Iterable

from v14.check.client import Account
from v14.check.facts import Fact

LETTER = r"[^\W\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]"
"""A letter or digit of a script with spaces: Thai, Lao, Japanese and Chinese set no bounds to a word."""


def contains(answer: str, accepted: Iterable[str]) -> bool:
    """Whether the answer contains one of the accepted values as whole words, whatever their case.

    A comma between digits (1,234) is no difference, nor is a unit right behind a number (6:45pm).
    """
    plain = _without_separators(answer)
    return any(re.search(_whole(_without_separators(value)), plain, re.IGNORECASE) for value in accepted)


def _without_separators(text: str) -> str:
    return re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)


def _whole(value: str) -> str:
    after = r"(?!\d)" if value[-1:].isdigit() else rf"(?!{LETTER})"
    return rf"(?<!{LETTER}){re.escape(value)}{after}"


def recalled(account: Account | None, fact: Fact) -> bool:
    """Whether the event in which the user told the fact is among those that the reply was given with."""
    return recalls(account, fact.statement)


def recalls(account: Account | None, statement: str) -> bool:
    """Whether an event in which the user said this is among those that the reply was given with."""
    if account is None:
        return False
    told = " ".join(statement.split())
    return any(event.role == "user" and told in " ".join(event.text.split()) for event in account.recalled)
