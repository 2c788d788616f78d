"""Which files hold a checkpoint's weights, and an id that names them and the tokenizer.

The id binds a store to the weights that made its traces and to the tokens that its events are. It is SHA-256 over, for
every weight file in order of name: the name, the size, the safetensors header (names, dtypes, shapes and places of all
tensors) and 64 samples of 4 KiB spread evenly over the rest. So it takes milliseconds at any size, and two checkpoints
that differ in any training step differ in it. Behind them come name and content of every file that says which text a
token is. It is no protection against somebody who forges weights.
"""

import hashlib
import json
import struct
from pathlib import Path

from v14.errors import UpgradeError
from v14.types import ID_PREFIX

NUM_SAMPLES = 64
SAMPLE_BYTES = 4096
TOKENIZER_FILES = ("added_tokens.json", "merges.txt", "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
INDEX = "model.safetensors.index.json"


def weight_files(checkpoint: Path) -> list[Path]:
    """The checkpoint's safetensors files, by name. Raises `UpgradeError` where there are none or one is missing."""
    if (checkpoint / INDEX).exists():
        names = _indexed(checkpoint / INDEX)
        files = [checkpoint / name for name in names]
    else:
        files = sorted(checkpoint.glob("*.safetensors"))
    if not files:
        raise UpgradeError(f"{checkpoint} has no *.safetensors; save the checkpoint with safe_serialization first")
    for file in files:
        if not file.is_file():
            raise UpgradeError(f"{file} is named in {INDEX} but is not there; download it again")
    return files


def _indexed(index: Path) -> list[str]:
    """The names of the files that an index names. Raises `UpgradeError` for one that is not such a list."""
    try:
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        outside = [name for name in names if not name or Path(name).name != name]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UpgradeError(f"{index} does not read ({error!r}); download it again") from error
    if outside:
        raise UpgradeError(f"{index} names {outside[0]!r}, which is no file beside it; download it again")
    return names


def weights_id(checkpoint: Path) -> str:
    """The id of a checkpoint's weights and tokenizer, `sha256:…`. Raises `UpgradeError`."""
    digest = hashlib.sha256()
    for file in weight_files(checkpoint):
        size = file.stat().st_size
        digest.update(file.name.encode() + b"\0" + struct.pack("<Q", size))
        with file.open("rb") as source:
            header = source.read(8)
            length = struct.unpack("<Q", header)[0] if len(header) == 8 else size
            if 8 + length > size:
                raise UpgradeError(f"{file} is no whole safetensors file; download it again")
            digest.update(header + source.read(length))
            first = 8 + length
            for sample in range(NUM_SAMPLES):
                source.seek(first + (size - first) * sample // NUM_SAMPLES)
                digest.update(source.read(SAMPLE_BYTES))
    for file in (checkpoint / name for name in TOKENIZER_FILES):
        if file.is_file():
            content = file.read_bytes()
            digest.update(file.name.encode() + b"\0" + struct.pack("<Q", len(content)) + content)
    return ID_PREFIX + digest.hexdigest()
