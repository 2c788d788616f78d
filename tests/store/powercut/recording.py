"""What a process wrote, as `recorder.c` saw it, and what a disk may hold of it when the power goes.

Kept is what was synced: a file's content by a sync of the file, its name by a sync of its directory. Of the rest a disk
may keep nothing, or (`torn`) any part: each write or not, the last sectors of one or not, names up to any point.
"""

import os
import random
import shutil
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
SECTOR = 512


@dataclass(frozen=True)
class Step:
    """One record; see `recorder.c` for the letters."""

    what: str
    inode: int
    at: int
    data: bytes


@dataclass
class File:
    """Writes and cuts of a file, in order, and how many of them were synced."""

    changes: list[Step] = field(default_factory=list)
    num_synced: int = 0

    def content(self, rng: random.Random | None) -> bytes:
        """What the disk has: what was synced, and with `rng` any part of the rest."""
        content = bytearray()
        for number, change in enumerate(self.changes):
            data = change.data
            if number >= self.num_synced:
                if rng is None or rng.random() < 0.5:
                    continue
                if rng.random() < 0.2:
                    data = data[: rng.randrange(1 + len(data) // SECTOR) * SECTOR]
            if change.what == "T":
                content = content[: change.at].ljust(change.at, b"\0")
            else:
                content = content.ljust(change.at, b"\0")
                content[change.at : change.at + len(data)] = data
        return bytes(content)


@dataclass
class Directory:
    """Names given, changed and taken, in order, and how many of that were synced."""

    changes: list[tuple[str, str, File | None]] = field(default_factory=list)
    num_synced: int = 0

    def names(self, rng: random.Random | None) -> dict[str, File]:
        """Names that the disk has, with `rng` up to any point of what was not synced."""
        until = self.num_synced if rng is None else rng.randint(self.num_synced, len(self.changes))
        names: dict[str, File] = {}
        for old, new, file in self.changes[:until]:
            names.pop(old, None)
            if new and file is not None:
                names[new] = file
        return names


class Disk:
    """The files below one directory after some steps."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.directories: dict[str, Directory] = defaultdict(Directory)
        self._now: dict[str, File] = {}
        self._files: dict[int, File] = {}
        for step in steps:
            self._apply(step)

    def lay_out(self, root: Path, moved: Path, rng: random.Random | None) -> None:
        """Write what was below `root` to `moved`, as after a power cut."""
        for path, directory in self.directories.items():
            target = moved / Path(path).relative_to(root)
            target.mkdir(parents=True, exist_ok=True)
            for name, file in directory.names(rng).items():
                (target / name).write_bytes(file.content(rng))

    def _apply(self, step: Step) -> None:
        text = step.data.decode(errors="replace")
        match step.what:
            case "C":
                self._files[step.inode] = self._now[text] = File()
                self._named("", text, self._now[text])
            case "W" | "T":
                self._files[step.inode].changes.append(step)
            case "S":
                file = self._files[step.inode]
                file.num_synced = len(file.changes)
            case "D":
                directory = self.directories[text]
                directory.num_synced = len(directory.changes)
            case "R":
                old, _, new = text.partition("\0")
                if old not in self._now:
                    unseen = next(name for name, file in self._now.items() if file is self._files[step.inode])
                    self._now[old] = self._now.pop(unseen)
                    self._named(unseen, old, self._now[old])
                self._now[new] = self._now.pop(old)
                self._named(old, new, self._now[new])
            case "U":
                self._now.pop(text)
                self._named(text, "", None)

    def _named(self, old: str, new: str, file: File | None) -> None:
        directory, _ = os.path.split(new or old)
        self.directories[directory].changes.append((os.path.basename(old), os.path.basename(new), file))


def record(seed: int, home: Path, work: Path) -> list[Step]:
    """The steps of one run of `writer` on `home`, an empty directory. Needs a C compiler."""
    library, log = work / "recorder.so", work / f"{seed}.log"
    if not library.exists():
        command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(HERE / "recorder.c"), "-ldl", "-lpthread"]
        subprocess.run(command, check=True)
    environment = os.environ | {"LD_PRELOAD": str(library), "RECORD_ROOT": str(home), "RECORD_LOG": str(log)}
    command = [sys.executable, "-m", "tests.store.powercut.writer", str(seed), str(home)]
    subprocess.run(command, check=True, env=environment, cwd=HERE.parents[2], stdout=subprocess.DEVNULL)
    content, place, steps = log.read_bytes(), 0, []
    while place < len(content):
        what, inode, at, length = struct.unpack_from("<cQQI", content, place)
        place += 21 + length
        steps.append(Step(what.decode(), inode, at, content[place - length : place]))
    log.unlink()
    shutil.rmtree(home)
    return steps
