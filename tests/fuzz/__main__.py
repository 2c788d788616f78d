"""Fuzzing by coverage, with atheris: one process, one target after the other.

    python -m tests.fuzz [--minutes 10] [--targets NAME ...]

The time is shared by the targets. What brings new coverage is added to `tests/fuzz/corpus/<target>`, which the tests
replay; a finding ends that target's turn, is kept in `tests/fuzz/findings` and makes the exit status 1.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CORPUS, FINDINGS = HERE / "corpus", HERE / "findings"
MAX_BYTES = 1 << 15
MAX_KEPT = 40
"""Inputs kept of a target, the smallest: enough to begin again from, little enough for a repository."""


def fuzz(name: str, seconds: int) -> int:
    """One target in a process of its own (libFuzzer ends it); its exit status."""
    FINDINGS.mkdir(exist_ok=True)
    kept = CORPUS / name
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as found:
        options = [
            f"-max_total_time={seconds}", "-timeout=60", f"-max_len={MAX_BYTES}", "-rss_limit_mb=3000",
            "-print_final_stats=1", f"-artifact_prefix={FINDINGS}/{name}-", "-verbosity=0",
        ]  # fmt: skip
        status = subprocess.run([sys.executable, "-m", "tests.fuzz.one", name, *options, found, str(kept)]).returncode
        keep(kept, Path(found))
    return status


def keep(kept: Path, found: Path) -> None:
    """Move the smallest new inputs into the corpus, as far as there is room."""
    room = MAX_KEPT - len(list(kept.iterdir()))
    new = sorted(
        (path for path in found.iterdir() if path.stat().st_size <= 4096), key=lambda path: path.stat().st_size
    )
    for path in new[: max(0, room)]:
        (kept / path.name[:16]).write_bytes(path.read_bytes())


def main() -> None:
    """Share the time and say what came of it."""
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--targets", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    arguments = parser.parse_args()
    seconds = max(1, int(60 * arguments.minutes / len(arguments.targets)))
    failed = []
    for name in arguments.targets:
        print(f"== {name}: {seconds} s", flush=True)
        if fuzz(name, seconds):
            failed.append(name)
    print(f"{len(arguments.targets)} targets, {arguments.minutes:g} minutes; findings: {', '.join(failed) or 'none'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
