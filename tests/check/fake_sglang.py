"""Stands for `sglang serve`: a fake model whose memory outlives the process.

What it does is said by FAKE_BEHAVIOUR: `good`, `none`, … as in `fake_server`, `broken` (stops at once with a
traceback), `forking` (leaves a child that will not stop by itself), `failing` (prints a traceback and serves on).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.check.fake_server import FakeModel, serve


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    arguments, rest = parser.parse_known_args()
    behaviour = os.environ["FAKE_BEHAVIOUR"]
    print("arguments", rest, flush=True)
    print("home", os.environ["SGLANG_V14_MEMORY_HOME"], "trace", os.environ.get("SGLANG_V14_TRACE"), flush=True)
    if behaviour in ("broken", "failing"):
        print("Traceback (most recent call last):\n  made up", flush=True)
    if behaviour == "broken":
        sys.exit(3)
    if behaviour == "forking":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print("child", child.pid, flush=True)
    store = Path(os.environ["SGLANG_V14_MEMORY_HOME"]) / "events.json"
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    kind = behaviour if behaviour in ("none", "wrong", "eager") else "good"
    stored = json.loads(store.read_text()) if store.exists() else {}
    model = FakeModel(kind, stored=stored)
    with serve(model, arguments.port):
        stop.wait()
    store.write_text(json.dumps(model.stored))
    print("stopped in order", flush=True)


main()
