"""How often the tests that draw at random draw: a few times by default, as often as is promised in `make
test-store-hard`."""

import os

HARD = os.environ.get("STORE_HARD") == "1"


def rounds(few: int, hard: int) -> int:
    """How many rounds to run."""
    return hard if HARD else few
