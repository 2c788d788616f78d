"""A disk of its own for a test's store: small, to be filled, made read-only, taken away, put back, slowed down."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SLOW_SOURCE = Path(__file__).with_name("slow_disk.c")
SLOW_WRITE_S = 2.0


def missing() -> str:
    """Why no disk can be mounted here; empty where one can."""
    with tempfile.TemporaryDirectory() as place:
        try:
            mount("-t", "tmpfs", "none", place)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"mounting is not allowed here: {(getattr(error, 'stderr', '') or str(error)).strip()}"
        unmount(place)
    return ""


@dataclass(frozen=True)
class Disk:
    """A file system of a few MiB, mounted at `path`. It stays mounted at `aside` too, where the test reaches it while
    it is away."""

    path: Path
    aside: Path

    def fill(self) -> None:
        """Leave no byte free."""
        with open(self.aside / "ballast", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        """Take out what filled it."""
        (self.aside / "ballast").unlink()

    def turn_read_only(self) -> None:
        """No file can be made or opened for writing. What is open stays so, as on every file system."""
        mount("--bind", self.path, self.path)
        mount("-o", "remount,bind,ro", self.path)

    def turn_writable(self) -> None:
        """Undo `turn_read_only`."""
        unmount(self.path)

    def take_away(self) -> None:
        """Nothing but an empty directory is where it was; files that are open stay open."""
        unmount("--lazy", self.path)

    def put_back(self) -> None:
        """Undo `take_away`."""
        mount("--bind", self.aside, self.path)


@contextmanager
def mounted(place: Path, size: str) -> Iterator[Disk]:
    """A disk of a size as tmpfs takes it (`8m`) in a directory of the test."""
    disk = Disk(place / "disk", place / "aside")
    for path in (disk.path, disk.aside):
        path.mkdir()
    mount("-t", "tmpfs", "-o", f"size={size},mode=700", "none", disk.aside)
    disk.put_back()
    try:
        yield disk
    finally:
        for path in (disk.path, disk.path, disk.aside):
            with contextlib.suppress(subprocess.CalledProcessError):
                unmount("--lazy", path)


@dataclass(frozen=True)
class Brake:
    """What makes every write and sync below `root` take two seconds while it is on."""

    root: Path
    library: Path
    switch: Path

    @property
    def environment(self) -> dict[str, str]:
        """For the process that is to be slow."""
        return {
            "LD_PRELOAD": str(self.library),
            "SLOW_ROOT": str(self.root),
            "SLOW_SWITCH": str(self.switch),
            "SLOW_MS": str(round(1000 * SLOW_WRITE_S)),
        }

    def on(self) -> None:
        """From now on."""
        self.switch.touch()

    def off(self) -> None:
        """As fast as it is, again."""
        self.switch.unlink(missing_ok=True)

    @classmethod
    def build(cls, root: Path, work: Path) -> "Brake":
        """For files below `root`; needs a C compiler."""
        library = work / "slow_disk.so"
        command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(SLOW_SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        return cls(root, library, work / "slow")


def mount(*arguments: str | os.PathLike[str]) -> None:
    """`mount` with these arguments. Raises `OSError` or `subprocess.CalledProcessError`."""
    run("mount", *arguments)


def unmount(*arguments: str | os.PathLike[str]) -> None:
    """`umount` with these arguments; raises the same."""
    run("umount", *arguments)


def run(*command: str | os.PathLike[str]) -> None:
    """A command that must succeed; what it says is in the error if it does not."""
    subprocess.run(command, check=True, capture_output=True, text=True)
