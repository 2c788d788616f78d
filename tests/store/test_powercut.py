"""Power cuts: the store opens with every acknowledged event, whole, and without any that it said it had forgotten."""

import random
import shutil
from pathlib import Path

import pytest

from tests.counts import counted
from tests.store.checker import wrongs
from tests.store.hard import rounds
from tests.store.making import made
from tests.store.powercut.recording import Disk, Step, record

CUTS = rounds(12, 200)
CUTS_PER_RUN = 12

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")

Triple = tuple[str, int, bool]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Step]]:
    """Where the first run wrote, and its steps."""
    work = tmp_path_factory.mktemp("powercut")
    return work / "run", record(1, work / "run", work)


def said(steps: list[Step], word: str) -> list[Triple]:
    """Events that the writer had named behind a word."""
    lines = [step.data.decode().split() for step in steps if step.what == "A"]
    words = [one for line in lines if line[0] == word for one in line[1:]]
    return [(words[i], int(words[i + 1]), words[i + 2] == "1") for i in range(0, len(words), 3)]


def wrong_after(steps: list[Step], root: Path, home: Path, rng: random.Random | None) -> list[str]:
    """What is wrong with the store that a cut behind `steps` leaves."""
    Disk(steps).lay_out(root, home, rng)
    going, gone = said(steps, "forgetting"), said(steps, "forgot")
    found = wrongs(home, [event for event in said(steps, "ack") if event not in going])
    for namespace, number, large in gone:
        event, _ = made(number, namespace, large=large)
        if any(event.id.encode() in path.read_bytes() for path in home.rglob("*") if path.is_file()):
            found.append(f"forgotten, still there: {namespace} {number}")
    return found


def test_power_cuts(tmp_path: Path, run: tuple[Path, list[Step]]) -> None:
    rng = random.Random(14)
    num_acknowledged = num_forgotten = num_torn = 0
    root, steps = run
    for number in range(CUTS):
        if number and number % CUTS_PER_RUN == 0:
            root = tmp_path / f"run-{number}"
            steps = record(1 + number // CUTS_PER_RUN, root, tmp_path)
        cut, torn = rng.randint(1, len(steps)), number % 2 == 1
        home = tmp_path / "home"
        assert wrong_after(steps[:cut], root, home, rng if torn else None) == [], f"cut {number}, behind step {cut}"
        num_acknowledged += len(said(steps[:cut], "ack"))
        num_forgotten += len(said(steps[:cut], "forgot"))
        num_torn += torn
        shutil.rmtree(home)
    counted(
        f"{CUTS} power cuts ({num_torn} keeping any part of what was not synced): 0 failures to open, 0 torn events; "
        f"of {num_acknowledged} acknowledged events 0 lost, of {num_forgotten} forgotten ones 0 left"
    )
    assert num_acknowledged > CUTS
    assert num_forgotten > 0


@pytest.mark.parametrize("without", ["S", "D"], ids=["files not synced", "directories not synced"])
def test_a_store_that_did_not_sync_would_be_found_out(
    tmp_path: Path, run: tuple[Path, list[Step]], without: str
) -> None:
    """The negative control: the same run without one kind of sync."""
    root, steps = run
    steps = [step for step in steps if step.what != without]
    assert any(wrong_after(steps[: len(steps) * part // 4], root, tmp_path / str(part), None) for part in (2, 3, 4))
