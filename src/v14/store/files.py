"""Blobs as files of one directory."""

import contextlib
import errno
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from v14.errors import StoreError, TraceCorruptError
from v14.store.layout import TEMPORARY_SUFFIX, sync_directory

ZEROS = bytes(1 << 20)


class FileBlobs:
    """See `v14.store.foundation.Blobs`. Whoever writes holds the store's lock."""

    def __init__(self, directory: Path, *, fsync: bool = True) -> None:
        """`fsync=False` gives up surviving a power cut."""
        self._directory, self._fsync = directory, fsync
        self._num_bytes: int | None = None
        self._counting = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """Bytes of all files, as far as they were written and removed here; 0 while the directory is gone.

        Counted when it is first asked for: a look at each of many files is most of what opening a large store takes.
        """
        with self._counting:
            if self._num_bytes is None:
                try:
                    sizes = self.list()
                except OSError:
                    return 0
                self._num_bytes = sum(size for name, size in sizes.items() if not name.endswith(TEMPORARY_SUFFIX))
            return self._num_bytes

    def where(self, name: str) -> str:
        """The file's path."""
        return str(self._directory / name)

    def write(self, name: str, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
        """Write a file: it gets its name only when its content is on disk. Raises `OSError`."""
        path = self._directory / name
        temporary = path.with_suffix(TEMPORARY_SUFFIX)
        try:
            _save(dict(tensors), temporary, dict(metadata))
            if self._fsync:
                _sync_file(temporary)
            with self._counting:
                replaced_bytes = self._size(name)
                os.replace(temporary, path)
                self._count(self._size(name) - replaced_bytes)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if self._fsync:
            sync_directory(self._directory)

    def read(self, name: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """Byte ranges of a file."""
        path = self._directory / name
        try:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                return [_read_fully(descriptor, start, end) for start, end in ranges]
            finally:
                os.close(descriptor)
        except OSError as error:
            if not self._answers():
                raise StoreError(f"{self._directory} is gone ({error}); put it back, it is looked for again") from error
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                raise TraceCorruptError(f"{path} is missing or damaged ({error}); its events are set aside") from error
            kind = TraceCorruptError if error.errno in (errno.EIO, errno.EISDIR) else StoreError
            raise kind(f"{path} cannot be read ({error}); check the disk and the limits of the process") from error

    def remove(self, names: Iterable[str]) -> None:
        """Overwrite files with zeros and delete them, durably. Raises `OSError`.

        On a file system that writes in place nothing is left on the disk; one that copies on write keeps old blocks
        until it needs them. A file of several names (a copy by hard links) only loses this one.
        """
        for name in names:
            num_bytes = self._size(name)
            with contextlib.suppress(FileNotFoundError):
                _overwrite(self._directory / name, num_bytes, fsync=self._fsync)
            with self._counting:
                (self._directory / name).unlink(missing_ok=True)
                self._count(-num_bytes)
        if self._fsync:
            sync_directory(self._directory)

    def list(self) -> Mapping[str, int]:
        """Bytes by file name, temporary files included. Raises `OSError`."""
        with os.scandir(self._directory) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file(follow_symlinks=False)}

    def names(self) -> set[str]:
        """Names of all files, without a look at each. Raises `OSError`."""
        with os.scandir(self._directory) as entries:
            return {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}

    def close(self) -> None:
        """Nothing is held open."""

    def _count(self, num_bytes: int) -> None:
        if self._num_bytes is not None:
            self._num_bytes += num_bytes

    def _answers(self) -> bool:
        """Whether the directory is there and can be read: of a disk that was taken away, no file is damaged."""
        try:
            with os.scandir(self._directory) as entries:
                next(entries, None)
        except OSError:
            return False
        return True

    def _size(self, name: str) -> int:
        try:
            return (self._directory / name).stat().st_size
        except OSError:
            return 0


def _read_fully(descriptor: int, start: int, end: int) -> bytes:
    """One call of pread returns at most 2 GiB, and less where a signal came."""
    parts = []
    while start < end and (part := os.pread(descriptor, end - start, start)):
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _overwrite(path: Path, num_bytes: int, *, fsync: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        if os.fstat(descriptor).st_nlink > 1:
            return
        for start in range(0, num_bytes, len(ZEROS)):
            os.pwrite(descriptor, ZEROS[: num_bytes - start], start)
        if fsync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _save(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
    """`save_file` (which lets other threads run while it writes) with its errors turned back into `OSError`."""
    try:
        save_file(tensors, path, metadata)
    except SafetensorError as error:
        found = re.search(r"\(os error (\d+)\)", str(error))
        if found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(path)) from error


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
