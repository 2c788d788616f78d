"""The whole examination, as a table or as JSON."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from v14.doctor import directory, engine, environment, gpu, packages, store
from v14.doctor.finding import Finding, fail, render
from v14.doctor.probing import probe


def examine(model: Path | None) -> list[Finding]:
    """Everything that can be found out here; a part that fails is a finding, too."""
    steps = probe([] if model is None else [str(model)])
    parts: dict[str, Callable[[], Iterable[Finding]]] = {
        "packages": lambda: packages.examine(steps),
        "gpu": gpu.examine,
        "engine": lambda: engine.examine(steps),
        "environment": lambda: environment.examine(steps),
        "store": lambda: store.examine(environment.home(), steps),
    }
    if model is not None:
        parts["directory"] = lambda: directory.examine(model, steps)
    return [finding for name, part in parts.items() for finding in _guarded(name, part)]


def _guarded(name: str, part: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from part()
    except Exception as error:  # noqa: BLE001 - the doctor always says what it can
        yield fail(name, f"could not be examined: {type(error).__name__}: {error}", "report this with the line above")


def main(arguments: Sequence[str]) -> int:
    """Print the findings; 1 if one of them is a failure."""
    parser = argparse.ArgumentParser(
        prog="v14 doctor", description="What is wrong with this installation, and what to do about it."
    )
    parser.add_argument("directory", nargs="?", type=Path, help="a V14 directory to look at as well")
    parser.add_argument("--json", action="store_true", help="write JSON instead of a table")
    options = parser.parse_args(list(arguments))
    findings = examine(options.directory)
    failed = any(finding.level == "fail" for finding in findings)
    if options.json:
        sys.stdout.write(json.dumps([finding.to_json() for finding in findings], indent=1) + "\n")
    else:
        shown = [finding for finding in findings if (finding.subject, finding.level) != ("seam", "ok")]
        num_seams = len(findings) - len(shown)
        counts = {level: sum(f.level == level for f in findings) for level in ("ok", "warn", "fail")}
        sys.stdout.write(f"{render(shown)}\n")
        if num_seams:
            sys.stdout.write(f"ok    seams: {num_seams} symbols of SGLang are as they should be\n")
        sys.stdout.write(f"{counts['ok']} ok, {counts['warn']} to look at, {counts['fail']} to mend\n")
    return int(failed)
