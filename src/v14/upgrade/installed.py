"""Which architectures the installed libraries have.

Transformers measures the voters, so it must have the model. SGLang only serves the result: that it lacks one is said,
and Transformers can still use the directory. SGLang is not imported for that; its model files are read.
"""

import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import transformers

from v14.errors import UnsupportedModelError
from v14.models import Adapter


def check_transformers(adapter: Adapter) -> None:
    """Raise `UnsupportedModelError`, naming the architecture, where the installed Transformers does not have it."""
    for name in (adapter.architecture, adapter.config_class):
        if not hasattr(transformers, name):
            raise UnsupportedModelError(
                f"Transformers {transformers.__version__} has no {name}, so the voters of {adapter.architecture} "
                "cannot be measured; install a Transformers that has it and run `v14 upgrade` again"
            )


def sglang_line(adapter: Adapter) -> str | None:
    """What to tell the reader where SGLang is installed and does not have the architecture."""
    try:
        installed = version("sglang")
    except PackageNotFoundError:
        return None
    spec = find_spec("sglang")
    places = spec.submodule_search_locations if spec is not None else None
    if not places or adapter.architecture in served_by(Path(places[0])):
        return None
    return (
        f"SGLang {installed} has no {adapter.architecture}: this directory works in Transformers; to serve it, install "
        "an SGLang that has the model"
    )


def served_by(sglang: Path) -> set[str]:
    """Names of all classes in the model files of an SGLang package."""
    found: set[str] = set()
    for file in (sglang / "srt" / "models").glob("*.py"):
        found.update(re.findall(r"^class (\w+)\(", file.read_text(errors="replace"), re.MULTILINE))
    return found
