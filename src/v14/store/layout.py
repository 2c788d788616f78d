"""Where the files of a store lie, and who may write them.

HOME/
  sha256-<hex>/              one directory per set of weights
    lock                     held (flock) by the one process that writes; holds its process id
    catalog.sqlite3          the catalog, with SQLite's own -wal and -shm beside it
    segments/
      0000000001.safetensors traces of one commit; never changed once a catalog row names it
"""

import contextlib
import fcntl
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from v14.config import ENV_PREFIX
from v14.errors import StoreError

HOME_VARIABLE = f"{ENV_PREFIX}MEMORY_HOME"
SEGMENT_SUFFIX = ".safetensors"
TEMPORARY_SUFFIX = ".tmp"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Paths of the store of one set of weights."""

    root: Path

    @classmethod
    def of(cls, home: Path, weights_id: str) -> "Layout":
        """The layout under `home`; raises `StoreError` for a weights id that makes no directory name."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9:._-]{0,199}", weights_id):
            raise StoreError(f"{weights_id!r} is no weights id; it should read sha256:<hex>. Run `v14 upgrade` again.")
        return cls(root=home / weights_id.replace(":", "-"))

    @property
    def catalog(self) -> Path:
        """The SQLite file."""
        return self.root / "catalog.sqlite3"

    @property
    def segments(self) -> Path:
        """The directory of segment files."""
        return self.root / "segments"

    @property
    def lock(self) -> Path:
        """The file that the writing process locks."""
        return self.root / "lock"

    def segment(self, name: str) -> Path:
        """The segment file of that name."""
        return self.segments / name

    def make(self) -> None:
        """Create the directories and the catalog's file, readable by their owner alone, whatever the umask: they hold
        what people said. Those that are there and are not are made so. Raises `OSError`."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.segments.mkdir(exist_ok=True, mode=0o700)
        # SQLite gives the files beside the catalog the mode of the catalog itself.
        os.close(os.open(self.catalog, os.O_RDWR | os.O_CREAT, 0o600))
        for path in (self.root, self.segments, *self.root.glob(f"{self.catalog.name}*")):
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                path.chmod(0o700 if path.is_dir() else 0o600)
        for directory in (self.root.parent, self.root):
            sync_directory(directory)

    def acquire(self) -> int:
        """Take the writer's lock and return its descriptor; the kernel lets go of it however the process ends.

        Raises `StoreError` where another process, or another store of this one, holds it.
        """
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StoreError(
                f"{self.root} is being written by process {holder} ({self.lock}). "
                f"Stop that server, or set {HOME_VARIABLE} to another directory."
            ) from error
        with contextlib.suppress(OSError):  # the process id is for people; a full disk must not keep the lock from us
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return descriptor


def segment_name(number: int) -> str:
    """File name of a segment; segments are numbered in the order of their commits, from 1."""
    return f"{number:010d}{SEGMENT_SUFFIX}"


def segment_number(name: str) -> int:
    """The inverse of `segment_name`."""
    return int(name.removesuffix(SEGMENT_SUFFIX))


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable. Raises `OSError`."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
