"""A PostgreSQL and an S3 server for tests, and a cable to each that can be cut."""

import contextlib
import getpass
import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

BUCKET = "memories"
START_TIMEOUT_S = float(os.environ.get("SERVER_START_S", "60"))
"""A machine that is busy with other work needs more."""

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


def postgres_bin() -> Path | None:
    """The directory of PostgreSQL's programs, wherever Debian or the path has them; the newest version."""
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))]
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def missing() -> str:
    """Why no shared store can be tested here; empty where one can."""
    if postgres_bin() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    packages = [name for name in ("psycopg", "obstore", "moto") if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(packages)} (pip install 'sglang-v14[shared]' 'moto[server]')" if packages else ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while True:
        assert process.poll() is None, f"{process.args} ended with {process.returncode}"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert time.monotonic() < until, f"{process.args} does not listen"
        time.sleep(0.05)


@dataclass
class Postgres:
    """A server with data of its own; it may be stopped, killed and started again."""

    directory: Path
    """Of its log and socket."""
    data: Path
    port: int
    user: dict[str, str | int]
    settings: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        bin_ = postgres_bin()
        assert bin_ is not None
        settings = ("listen_addresses=127.0.0.1", f"unix_socket_directories={self.directory}", *self.settings)
        options = [word for setting in settings for word in ("-c", setting)]
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                [bin_ / "postgres", "-D", self.data, "-p", str(self.port), *options],
                stdout=log, stderr=log, cwd=self.directory, **self.user,
            )  # fmt: skip
        wait_for(self.port, self.process)
        until = time.monotonic() + START_TIMEOUT_S
        while subprocess.run(
            [bin_ / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
        ).returncode:
            assert time.monotonic() < until
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT is a clean stop that ends every connection."""
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(60)


NO_SYNC = ("fsync=off",)
"""Where no test takes the machine's power: without fsync the server only stops faster."""


@contextmanager
def postgres_server(disk: Path | None = None, settings: tuple[str, ...] = NO_SYNC) -> Iterator[Postgres]:
    """A server with its data on a disk, or in a temporary directory.

    PostgreSQL refuses to run as root: then it runs as its own user, or as nobody.
    """
    user: dict[str, str | int] = {}
    name = getpass.getuser()
    if os.geteuid() == 0:
        names = {entry.pw_name for entry in pwd.getpwall()}
        name = "postgres" if "postgres" in names else "nobody"
        user = {"user": name, "group": pwd.getpwnam(name).pw_gid}
    # Not pytest's own directory, which only its owner may enter.
    directory = Path(tempfile.mkdtemp(prefix="v14-postgres-"))
    data = (disk or directory) / "data"
    try:
        for path in {directory, data.parent}:
            os.chown(path, pwd.getpwnam(name).pw_uid, pwd.getpwnam(name).pw_gid)
        bin_ = postgres_bin()
        assert bin_ is not None
        options = ["-U", "v14", "-A", "trust", "-E", "UTF8", "--locale=C", "--wal-segsize=1"]
        options += [] if disk else ["--no-sync"]
        subprocess.run(
            [bin_ / "initdb", "-D", data, *options], check=True, stdout=subprocess.DEVNULL, cwd=directory, **user
        )
        server = Postgres(directory, data, free_port(), user, settings)
        server.start()
        try:
            yield server
        finally:
            if server.process is not None and server.process.poll() is None:
                server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def object_server() -> Iterator[int]:
    """The port of an S3 server with one bucket, all in memory."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONWARNINGS"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        wait_for(port, process)
        import urllib.request

        request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        yield port
    finally:
        process.kill()
        process.wait()


@dataclass
class Cable:
    """A port that leads to another one as long as it is not cut. What it still holds then, for `delay_s`, is lost."""

    target: int
    delay_s: float = 0.0
    port: int = 0
    is_cut: bool = False
    num_bytes: int = 0
    """Bytes that came back from the target."""
    _ends: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Every connection is broken, and no new one comes about."""
        self.is_cut = True
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._ends.clear()

    def mend(self) -> None:
        self.is_cut = False

    def close(self) -> None:
        self.cut()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if self.is_cut:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=10)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            self._ends += [near, far]
            for source, sink, counts in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._carry, args=(source, sink, counts), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self.delay_s:
                    time.sleep(random.uniform(0, self.delay_s))
                sink.sendall(data)
                self.num_bytes += len(data) if counts else 0
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        # Closed by whoever carries in the other direction, too: a second close does nothing.
        source.close()
