"""Everything that needs the packages: run by `probing.py` in a process of its own, one JSON line for each step.

Each step is announced before it begins, so that one which crashes the interpreter is known by name.
"""

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> None:
    """Run all steps; the argument is a V14 directory, if there is one."""
    steps: dict[str, Callable[[], Any]] = {
        "torch": _torch,
        "triton": lambda: _import("triton"),
        "transformers": lambda: _import("transformers"),
        "sglang": lambda: _import("sglang.srt.server_args"),
        "environment": _environment,
        "catalog": _catalog,
        "shared": _shared,
        "seams": _seams,
    }
    if arguments:
        steps["directory"] = lambda: _directory(Path(arguments[0]))
    for name, step in steps.items():
        _say(name)
        try:
            _say(name, value=step())
        except BaseException as error:  # noqa: BLE001 - whatever a package does at import is the finding
            _say(name, error=f"{type(error).__name__}: {error}")


def _say(name: str, **result: Any) -> None:
    print(json.dumps({"v14_step": name, **result}), flush=True)


def _import(name: str) -> str:
    __import__(name)
    return ""


def _torch() -> str:
    import torch

    if not torch.cuda.is_available():
        return "no CUDA device"
    return f"CUDA {torch.version.cuda}, {torch.cuda.device_count()} device(s)"


def _environment() -> str:
    """Read everything that the environment names, but run nothing: a command that gives a key is left alone."""
    from v14.config import Switches
    from v14.namespaces import Namespaces
    from v14.store.master import master_key

    switches = Switches.read()
    Namespaces.open(switches)
    master_key(dataclasses.replace(switches, key_command=None))
    return ""


def _catalog() -> int:
    from v14.store.schema import CATALOG_VERSION

    return CATALOG_VERSION


def _shared() -> list[str]:
    """A line for each store of a shared home; nothing for a directory, which is looked at without the packages."""
    from v14.config import Switches
    from v14.home import SharedHome
    from v14.store.looking import views

    home = Switches.read().memory_home
    found = views(home) if isinstance(home, SharedHome) else []
    return [f"{store.weights_id[:19]}…: {store.num_events} events in {store.path}" for store in found]


def _seams() -> dict[str, Any]:
    from v14.engines.sglang import symbols

    problems, found = [], []
    called = (seam.names for seam in symbols.CALLED)
    for names in (*((seam,) for seam in symbols.SEAMS), *called):
        wrong = symbols.problems([symbols.Called(names=names)])
        problems += wrong
        if not wrong:
            found.append(" or ".join(seam.target for seam in names))
    return {"tested": symbols.TESTED_VERSIONS, "problems": problems, "found": found}


def _directory(path: Path) -> dict[str, Any]:
    from v14.engines.sglang.shards import refused_ranks
    from v14.profile import Profile
    from v14.upgrade.weights import weights_id

    profile = Profile.load(path)
    sizes = range(1, profile.geometry.num_heads + 1)
    return {
        "architecture": profile.base_architecture,
        "weights_id": profile.weights_id,
        "computed_id": weights_id(path),
        "options": profile.options.model_dump(),
        "ranks": [size for size in sizes if not refused_ranks(size, profile.geometry, profile.options)],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
