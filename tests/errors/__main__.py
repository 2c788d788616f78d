"""Record which tests provoke which messages, and write docs/errors.md anew.

python -m tests.errors [pytest arguments]   with none, only the page is written
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.errors.messages import ROOT, messages
from tests.errors.page import PAGE, PROVOKED, page


def record(arguments: list[str]) -> None:
    """Run the tests, and keep for each message the test that provokes the fewest others: the one that is about it."""
    with tempfile.TemporaryDirectory() as room:
        noted = Path(room) / "provoked.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.errors.recorder", *arguments]
        subprocess.run(command, env={**os.environ, "V14_PROVOKED": str(noted)}, cwd=ROOT, check=False)
        seen: dict[str, list[str]] = json.loads(noted.read_text())
    number: dict[str, int] = {}
    for tests in seen.values():
        for test in tests:
            number[test] = number.get(test, 0) + 1
    known = json.loads(PROVOKED.read_text()) if PROVOKED.exists() else {}
    known |= {
        key: min(filter(None, tests), key=lambda test: (number[test], test), default="") for key, tests in seen.items()
    }
    keys = {message.key for message in messages()}
    kept = {key: test for key, test in sorted(known.items()) if key in keys and test}
    PROVOKED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if sys.argv[1:]:
        record(sys.argv[1:])
    PAGE.write_text(page())
