"""A V14 directory: its files, its options, and whether the weights are those that it was made for."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from v14.doctor.finding import Finding, fail, ok

PARTS = ("config.json", "v14/profile.json", "v14/voters.safetensors")
AGAIN = "make it again with `v14 upgrade`"


def examine(path: Path, steps: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings; `steps` is what `probing.probe` found out."""
    missing = [name for name in PARTS if not (path / name).is_file()]
    if missing:
        yield fail("directory", f"{path} is no V14 directory: {', '.join(missing)} missing", AGAIN)
        return
    yield from _weights(path)
    step = steps.get("directory", {})
    if "error" in step:
        yield fail("directory", step["error"], "correct what it names and ask again")
        return
    value = step.get("value")
    if value is None:
        return
    if value["weights_id"] != value["computed_id"]:
        yield fail(
            "weights",
            f"are not those that {path} was made of ({value['weights_id']}, now {value['computed_id']})",
            AGAIN,
        )
    else:
        yield ok("weights", value["weights_id"])
    yield ok("profile", value["architecture"])
    yield ok("ranks", f"served with --tp-size {', '.join(map(str, value['ranks']))}")
    yield ok("options", ", ".join(f"{name}={setting}" for name, setting in value["options"].items()))


def _weights(path: Path) -> Iterator[Finding]:
    index = path / "model.safetensors.index.json"
    names = [file.name for file in sorted(path.glob("*.safetensors"))]
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        except (OSError, ValueError, KeyError, AttributeError) as error:
            yield fail("weights", f"{index} cannot be read: {error}", AGAIN)
            return
    missing = [name for name in names if not (path / name).is_file()]
    if not names:
        yield fail("weights", f"{path} has no *.safetensors", AGAIN)
    elif missing:
        yield fail(
            "weights",
            f"{', '.join(missing)} missing in {path}; a link of it may point to nothing",
            f"put the checkpoint's files back where they were, or {AGAIN}",
        )
