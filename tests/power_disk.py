"""A disk whose power can be cut: what was not synced is gone."""

import contextlib
import fcntl
import os
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.disks import mount, run, unmount

EXT4_IOC_SHUTDOWN = 0x8004587D
"""`_IOR('X', 125, __u32)` of Linux's ext4."""
NO_LOG_FLUSH = 2


@dataclass
class PowerDisk:
    """An ext4 file system in a file, mounted at `path`, whose power can be cut.

    The cut is ext4's own shutdown without a flush of its log, by which Linux's file systems are tested: nothing reaches
    the disk any more, and what was not synced before is lost. Whoever uses it gets I/O errors and has to end before
    it can be mounted again, which replays its log.
    """

    image: Path
    path: Path

    @classmethod
    def make(cls, place: Path, num_mib: int) -> "PowerDisk":
        """Format and mount one. Raises `subprocess.CalledProcessError` or `OSError` where that is not allowed."""
        disk = cls(place / "image", place / "power")
        disk.path.mkdir()
        with open(disk.image, "wb") as file:
            file.truncate(num_mib << 20)
        run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^resize_inode", disk.image)
        disk.mount()
        return disk

    def mount(self) -> None:
        """Mount it, replaying its log."""
        mount("-o", "loop", self.image, self.path)

    def cut(self) -> None:
        """The power goes."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        """Once nobody uses it any more; waits for a moment for processes that are just ending."""
        for pause_s in (0.02, 0.1, 0.3, 1.0, 3.0):
            with contextlib.suppress(subprocess.CalledProcessError):
                return unmount(self.path)
            time.sleep(pause_s)
        unmount(self.path)

    def close(self) -> None:
        """Unmount it, whoever uses it, and delete it."""
        with contextlib.suppress(subprocess.CalledProcessError):
            unmount("--lazy", self.path)
        self.image.unlink(missing_ok=True)
