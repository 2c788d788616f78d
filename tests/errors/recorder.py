"""A pytest plugin that notes which test provoked which message: `-p tests.errors.recorder`.

It looks where the package's own errors are constructed. What another process says, and what is no error of the package,
is not seen: `page.BY_HAND` names the tests of those.
"""

import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from types import FrameType

from starlette.exceptions import HTTPException

from tests.errors.messages import SOURCE, messages
from v14.errors import V14Error

PLACES = defaultdict(list)
for _message in messages():
    PLACES[str(SOURCE / _message.file)].append(_message)

SEEN: dict[str, set[str]] = defaultdict(set)
"""By key the tests that provoked it."""


def note(frame: FrameType | None) -> None:
    """Note the message that the innermost frame of the package is making, if it is one of the table."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" (")[0].split("[")[0]
    while frame is not None and test:
        for message in PLACES.get(frame.f_code.co_filename, ()):
            if message.first <= frame.f_lineno <= message.last:
                SEEN[message.key].add(test)
                return
        frame = frame.f_back


def _own(error: V14Error, *args: object) -> None:
    ValueError.__init__(error, *args)
    note(sys._getframe(1))


_answer = HTTPException.__init__


def _http(error: HTTPException, *args: object, **kwargs: object) -> None:
    _answer(error, *args, **kwargs)
    note(sys._getframe(1))


def pytest_configure(config) -> None:
    """Begin to note."""
    V14Error.__init__ = _own
    HTTPException.__init__ = _http


def pytest_unconfigure(config) -> None:
    """Write what was noted."""
    out = Path(os.environ["V14_PROVOKED"])
    out.write_text(json.dumps({key: sorted(tests) for key, tests in sorted(SEEN.items())}, ensure_ascii=False))
