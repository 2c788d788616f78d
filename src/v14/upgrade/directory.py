"""Writing a V14 directory: everything in a temporary sibling, renamed when it is whole."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from v14.config import CONFIG_KEY
from v14.errors import UpgradeError
from v14.models import Adapter
from v14.profile import Profile
from v14.upgrade.weights import weight_files

Link = Literal["hardlink", "symlink", "copy"]

OTHER_WEIGHTS = {".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".safetensors", ".py"}
"""Files left behind: weights in other forms, weights that the index does not name, and code."""


@contextmanager
def whole_or_nothing(out: Path) -> Iterator[Path]:
    """A temporary directory beside `out` that becomes `out` at the end, or is gone after any failure."""
    out.parent.mkdir(parents=True, exist_ok=True)
    room = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield room
        room.chmod(0o755)
        room.rename(out)
    except BaseException:
        shutil.rmtree(room, ignore_errors=True)
        raise


def write(
    room: Path, checkpoint: Path, config: Mapping[str, Any], adapter: Adapter, profile: Profile, link: Link
) -> None:
    """Fill `room` with the V14 directory of a checkpoint."""
    weights = weight_files(checkpoint)
    others = [
        file
        for file in sorted(checkpoint.iterdir())
        if file.is_file() and file.name != "config.json" and file.suffix not in OTHER_WEIGHTS
    ]
    for file in [*weights, *others]:
        _link(file, room / file.name, link)
    write_code(room, adapter)
    data = {**v14_config(config, adapter), CONFIG_KEY: profile.options.model_dump()}
    (room / "config.json").write_text(json.dumps(data, indent=2) + "\n")
    profile.save(room)


def v14_config(config: Mapping[str, Any], adapter: Adapter) -> dict[str, Any]:
    """A checkpoint's `config.json` under its V14 name: its structure and `model_type` stay, `auto_map` names the code.

    A class that takes pictures stands under the two names that Transformers has for such models: as what it is, and as
    the language model that the memory uses.
    """
    model = f"modeling_v14.{adapter.v14_name}"
    auto_map = {"AutoConfig": f"configuration_v14.{_config_name(adapter)}", "AutoModelForCausalLM": model}
    if adapter.takes_pictures:
        auto_map["AutoModelForImageTextToText"] = model
    return {**config, "architectures": [adapter.v14_name], "auto_map": auto_map}


def write_code(room: Path, adapter: Adapter) -> None:
    """The two modules that `auto_map` names."""
    names = {
        "architecture": adapter.architecture,
        "v14_name": adapter.v14_name,
        "config_class": adapter.config_class,
        "config_name": _config_name(adapter),
    }
    for module in ("configuration_v14.py", "modeling_v14.py"):
        template = files("v14.upgrade").joinpath("templates", f"{module}.txt").read_text()
        (room / module).write_text(template.format(**names))


def _config_name(adapter: Adapter) -> str:
    return f"{adapter.v14_name.partition('For')[0]}Config"


def _link(source: Path, target: Path, link: Link) -> None:
    if link == "symlink":
        target.symlink_to(source.resolve())
    elif link == "copy":
        shutil.copy2(source, target)
    else:
        try:
            os.link(source.resolve(), target)
        except OSError as error:
            where = f"{source} cannot be hard-linked into {target.parent.parent} ({error.strerror})"
            raise UpgradeError(f"{where}; use --link symlink or --link copy") from error
