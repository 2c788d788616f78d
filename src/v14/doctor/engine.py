"""Whether SGLang finds the plugin, and has every symbol that it touches."""

import os
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from v14.doctor.finding import Finding, fail, ok, warn

GROUP = "sglang.srt.plugins"
NAME = "v14"


def examine(steps: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings; `steps` is what `probing.probe` found out."""
    found = [point for point in entry_points(group=GROUP) if point.name == NAME]
    if not found:
        yield fail("plugin", f"no entry point {NAME!r} in the group {GROUP}", "pip install sglang-v14 into this Python")
    elif len(found) > 1:
        values = ", ".join(point.value for point in found)
        yield warn("plugin", f"{len(found)} entry points {NAME!r}: {values}", "pip uninstall all but one sglang-v14")
    else:
        yield ok("plugin", f"{found[0].value} in the group {GROUP}")
    allowed = os.environ.get("SGLANG_PLUGINS", "")
    if allowed and NAME not in [name.strip() for name in allowed.split(",")]:
        yield fail("plugin", f"SGLANG_PLUGINS={allowed} leaves it out", f"add {NAME} to SGLANG_PLUGINS, or unset it")
    yield from _seams(steps)


def _seams(steps: Mapping[str, Any]) -> Iterator[Finding]:
    if "error" in steps.get("sglang", {}):
        return
    step = steps.get("seams", {})
    if "error" in step:
        yield fail("seams", f"could not be looked at: {step['error']}", "mend what is reported above and ask again")
        return
    seams = step.get("value") or {"tested": "", "problems": [], "found": []}
    remedy = f"install a tested SGLang ({seams['tested']}), or uninstall sglang-v14 to serve without memory"
    for problem in seams["problems"]:
        yield fail("seam", problem, remedy)
    for target in seams["found"]:
        yield ok("seam", target)
