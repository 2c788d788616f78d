"""What nvidia-smi says."""

import shutil
import subprocess
from collections.abc import Iterator

from v14.doctor.finding import Finding, ok, warn

QUERY = "name,driver_version,memory.total,memory.free"
TIMEOUT_S = 20


def examine() -> Iterator[Finding]:
    """One finding for each GPU, or one for none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        yield ok("gpu", "no nvidia-smi here: SGLang would run on the CPU")
        return
    command = [program, f"--query-gpu={QUERY}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield warn("gpu", f"nvidia-smi does not answer: {error}", "look at the driver (dmesg) and restart the machine")
        return
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not lines:
        reason = (done.stderr or done.stdout).strip() or "no GPU"
        yield warn("gpu", f"nvidia-smi: {reason}", "look at the driver; in a container, start it with the GPUs")
        return
    yield from (ok("gpu", line) for line in lines)
