"""Runs the steps that need the packages in a process of its own, which may fail, hang or crash without harm here."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

TIMEOUT_S = 300

Steps = dict[str, dict[str, Any]]
"""By name of a step either `{"value": …}` or `{"error": …}`."""


def probe(arguments: Sequence[str], *, timeout_s: float = TIMEOUT_S) -> Steps:
    """What each step of `v14.doctor.steps` came to. A step that took the process down is the one that is blamed."""
    command = [sys.executable, "-m", "v14.doctor.steps", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
        output, end = done.stdout, f"the process ended with status {done.returncode}: {_last_line(done.stderr)}"
    except subprocess.TimeoutExpired as error:
        raw = error.stdout or b""
        output, end = raw.decode() if isinstance(raw, bytes) else raw, f"did not end within {timeout_s:.0f} s"
    steps: Steps = {}
    for line in output.splitlines():
        if not line.startswith('{"v14_step"'):
            continue
        message = json.loads(line)
        name = message.pop("v14_step")
        steps[name] = message or {"error": end}
    return steps


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]
