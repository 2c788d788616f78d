"""What was forgotten is in no file of the store and nowhere in the memory of the process that wrote it.

The process runs with memory overwritten as it is freed (by glibc, with Python's PYTHONMALLOC=malloc), so that
what is found is held by something, and not merely not yet used again.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.counts import counted
from tests.store.canaries import needles
from tests.store.hard import rounds
from tests.store.test_kill import ROOT

CASES = rounds(3, 100)
OVERWRITING = {
    # A thread's own cache of freed blocks would be passed over by the overwriting.
    "GLIBC_TUNABLES": "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0",
    "PYTHONMALLOC": "malloc", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


def in_files(home: Path, wanted: dict[str, bytes]) -> list[str]:
    contents = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    return [f"{name} in {path.name}" for name, one in wanted.items() for path in contents if one in contents[path]]


def in_memory(pid: int, wanted: dict[str, bytes]) -> list[str]:
    """What is found in the memory of a process that waits, and in which mapping."""
    found = []
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if match is None:
                continue
            start, end = (int(text, 16) for text in match.groups())
            memory.seek(start)
            content = memory.read(end - start)
            found += [f"{name} in {line.split()[-1]}" for name, one in wanted.items() if one in content]
    return found


@pytest.mark.skipif(not os.access("/proc/self/mem", os.R_OK), reason="needs /proc")
def test_no_trace_of_canaries(tmp_path: Path) -> None:
    rng = random.Random(14)
    num_before = 0
    home = tmp_path / "home"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.store.canaries", str(home)], cwd=ROOT, text=True, bufsize=1,
        env=os.environ | OVERWRITING, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for seed in range(CASES):
                namespace, kind = f"space-{rng.randrange(3)}", rng.choice(("event", "chat", "between", "namespace"))
                process.stdin.write(f"put {seed} {namespace} {rng.randrange(2)}\n")
                assert process.stdout.readline() == "put\n"
                wanted = needles(seed, namespace)
                num_before += bool(in_files(home, wanted) or in_memory(process.pid, wanted))
                process.stdin.write(f"forget {seed} {namespace} {kind}\n")
                answer = process.stdout.readline().split()
                assert answer[0] == "forgot"
                assert int(answer[1]) >= 1
                assert in_files(home, wanted) == [], f"case {seed}, by {kind}"
                assert in_memory(process.pid, wanted) == [], f"case {seed}, by {kind}"
        finally:
            process.kill()
    shutil.rmtree(home)
    counted(f"{CASES} canaries, {num_before} found before they were forgotten, 0 afterwards in files or memory")
    assert num_before == CASES
