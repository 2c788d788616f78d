"""`sglang serve` as a child process: started in a process group of its own, watched, stopped, its log kept."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import torch

from v14.check.client import ChatClient
from v14.config import ENV_PREFIX
from v14.errors import CheckError

CPU_ENV = {"SGLANG_USE_CPU_ENGINE": "1", "OMP_WAIT_POLICY": "PASSIVE"}
"""Threads that wait for each other by spinning come to a standstill when anything else wants the same cores."""

CPU_ARGUMENTS = (
    *("--device", "cpu", "--max-total-tokens", "16384", "--max-mamba-cache-size", "64"),
    *("--mamba-radix-cache-strategy", "no_buffer", "--disable-overlap-schedule"),
)
"""Without limits SGLang takes most of a machine's memory for its pools of KV and of recurrent states. The strategy is
the one that SGLang has for recurrent states on a CPU, where nothing overlaps anyway; models without any ignore it."""

TRACEBACK = "Traceback (most recent call last)"


@dataclass(kw_only=True)
class Server:
    """One server of `model_dir` with its store in `home`; a context manager, and restartable.

    Every start appends to `log`. Extra `arguments` go to `sglang serve` last, so that they win.
    """

    model_dir: Path
    home: Path
    log: Path
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: float = 600.0
    stop_timeout_s: float = 60.0
    url: str = field(default="", init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self, waiting: Callable[[], None] = lambda: None) -> None:
        """Start and wait until the server is healthy; `waiting` is called about twice a second meanwhile.

        Raises `CheckError` with the log's end when the server stops or the time runs out.
        """
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        cpu = not torch.cuda.is_available()
        command = [
            *(sglang_executable(), "serve", "--model-path", str(self.model_dir)),
            *("--host", "127.0.0.1", "--port", str(port)),
            *(CPU_ARGUMENTS if cpu else ()),
            *self.arguments,
        ]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
        environment = inherited | (CPU_ENV if cpu else {}) | {ENV_PREFIX + "MEMORY_HOME": str(self.home.absolute())}
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as sink:
            sink.write(f"$ {' '.join(command)}\n".encode())
            sink.flush()
            self._process = subprocess.Popen(
                command,
                env=environment | dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + self.start_timeout_s
        health = ChatClient(url=self.url, timeout_s=10.0)
        while not health.healthy():
            if not self.running:
                raise CheckError(f"the server stopped while starting; the end of {self.log}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.stop()
                raise CheckError(f"the server did not start in {self.start_timeout_s:.0f} s; see {self.log}")
            waiting()
            time.sleep(0.5)

    def stop(self) -> None:
        """Ask the server to stop, wait for it, and end whatever is left of its process group."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.stop_timeout_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def tracebacks(self) -> int:
        """Python tracebacks in the log, over all starts."""
        return self.log.read_text(errors="replace").count(TRACEBACK) if self.log.exists() else 0

    def log_tail(self, num_lines: int = 30) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-num_lines:])

    def __enter__(self) -> "Server":
        """Nothing is started yet: `start` says when."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, whatever happened."""
        self.stop()


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def sglang_executable() -> str:
    """The `sglang` command of this environment. Raises `CheckError` if it is not installed."""
    beside = Path(sys.executable).parent / "sglang"
    found = str(beside) if beside.exists() else shutil.which("sglang")
    if not found:
        raise CheckError("SGLang is not installed: no `sglang` command; install `sglang-v14[sglang]`")
    return found
