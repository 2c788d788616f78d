"""The directory of the stores: who owns it, whether it can be written, and whether SQLite can work there."""

import fcntl
import os
import pwd
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from v14.doctor.environment import HOME
from v14.doctor.finding import Finding, fail, ok, warn

LITTLE_BYTES = 5 << 30
"""Free space below which to think of more."""

NO_BYTES = 256 << 20
"""Free space below which writing is about to fail: a segment file alone may take 64 MiB."""

FEW_FILES = 1000

REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "lustre", "glusterfs", "fuse.glusterfs", "afs")
"""File systems on which SQLite's WAL mode (shared memory of one host) and its locks are not to be relied on."""


def examine(home: Path | None, steps: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings; `steps` is what `probing.probe` found out, and all that there is of a shared store (`home` None)."""
    if home is None:
        yield from _shared(steps.get("shared", {"error": "it was not looked at"}))
        return
    if home.exists() and not home.is_dir():
        yield fail("store", f"{home} is not a directory", f"set {HOME} to a directory")
        return
    place = home
    while not place.exists():
        place = place.parent
    yield from _place(home, place)
    yield from _space(place)
    layouts = sorted(path for path in home.iterdir() if (path / "catalog.sqlite3").is_file()) if place == home else []
    for root in layouts:
        yield from _store(root, steps.get("catalog", {}).get("value"))
    if not layouts:
        yield ok("store", f"nothing is stored in {home} yet")


def _shared(step: Mapping[str, Any]) -> Iterator[Finding]:
    if "error" in step:
        yield fail("store", step["error"], f"correct {HOME}, or start PostgreSQL and let this machine reach it")
        return
    for line in step["value"] or ["the shared store can be reached; nothing is stored in it yet"]:
        yield ok("store", line)


def _place(home: Path, place: Path) -> Iterator[Finding]:
    who, mode = _owner(place), place.stat().st_mode & 0o777
    if not os.access(place, os.W_OK | os.X_OK):
        yield fail(
            "store",
            f"{place} belongs to {who}, mode {mode:o}: this user ({_name(os.geteuid())}) cannot write there",
            f"chown it to the server's user, or set {HOME} to a directory of its own",
        )
        return
    yield ok("store", f"{home}{'' if place == home else ' (not made yet)'}: owner {who}, mode {mode:o}")
    kind = _file_system(place)
    if kind in REMOTE:
        remedy = f"put {HOME} on a local disk, or use a shared store"
        yield warn("store", f"{place} is on {kind}: SQLite's log and locks are not to be relied on there", remedy)
    try:
        _try_wal(place)
    except (OSError, sqlite3.Error) as error:
        yield fail("store", f"SQLite cannot keep a log in {place}: {error}", f"put {HOME} on a local disk with space")
    else:
        yield ok("store", f"SQLite {sqlite3.sqlite_version} can keep its log there ({kind or 'file system unknown'})")


def _try_wal(place: Path) -> None:
    """Write to a database in WAL mode in a directory of its own, which is removed."""
    with (
        tempfile.TemporaryDirectory(prefix=".v14-doctor-", dir=place) as room,
        closing(sqlite3.connect(Path(room) / "try.sqlite3")) as database,
    ):
        (mode,) = database.execute("PRAGMA journal_mode=WAL").fetchone()
        if mode != "wal":
            raise sqlite3.OperationalError(f"it stays in mode {mode}")
        database.execute("CREATE TABLE t (x)")
        database.commit()


def _space(place: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(place).free
    text = f"{free / 2**30:.1f} GiB free in {place}"
    remedy = "free space, forget what is no longer needed, or move the store to a larger disk"
    if free < NO_BYTES:
        yield fail("disk", text, remedy)
    elif free < LITTLE_BYTES:
        yield warn("disk", text, remedy)
    else:
        yield ok("disk", text)
    files = os.statvfs(place)
    if files.f_files and files.f_favail < FEW_FILES:
        yield warn("disk", f"{files.f_favail} files can still be made in {place}", "remove files that nobody needs")


def _store(root: Path, newest: int | None) -> Iterator[Finding]:
    if root.stat().st_mode & 0o077:
        yield warn("store", f"{root} can be read by others; it holds what people said", f"chmod 700 {root}")
    try:
        with closing(sqlite3.connect(f"{(root / 'catalog.sqlite3').absolute().as_uri()}?mode=ro", uri=True)) as reader:
            (version,) = reader.execute("PRAGMA user_version").fetchone()
            if newest is not None and not 1 <= version <= newest:
                yield fail(
                    "store",
                    f"{root} has format {version}, this package reads 1 to {newest}",
                    f"install the sglang-v14 that wrote it, or set {HOME} to another directory",
                )
                return
            ((total, corrupt),) = reader.execute("SELECT count(*), coalesce(sum(corrupt), 0) FROM events")
            yield ok("store", f"{root.name[:19]}…: {total} events, format {version}, {_holder(root / 'lock')}")
            if corrupt:
                yield warn(
                    "store", f"{corrupt} events of {root} are damaged and set aside", "put its files back from a copy"
                )
    except sqlite3.Error as error:
        yield fail(
            "store", f"{root / 'catalog.sqlite3'} cannot be read: {error}", "put it back from a copy, or move it away"
        )


def _holder(lock: Path) -> str:
    """Who writes there: told by the lock itself, since a process id may be left over."""
    try:
        with lock.open("rb") as file:
            holder = file.read(32).decode(errors="replace").strip() or "unknown"
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return f"in use by process {holder}"
    except OSError as error:
        return f"lock unknown ({error})"
    return "not in use"


def _file_system(place: Path) -> str:
    """Type of the file system that holds `place`, by the longest mount point; empty where /proc does not say."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return ""
    real = place.resolve()
    mounts = ((line.split()[1].replace("\\040", " "), line.split()[2]) for line in lines)
    holding = [(mount, kind) for mount, kind in mounts if real.is_relative_to(mount)]
    return max(holding, key=lambda pair: len(pair[0]), default=("", ""))[1]


def _owner(place: Path) -> str:
    return _name(place.stat().st_uid)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
