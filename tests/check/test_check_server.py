"""Starting and stopping a server, and the whole check of a directory, with a stand-in for `sglang serve`."""

import os
import sys
import time
from pathlib import Path

import pytest

from v14.check import server as server_module
from v14.check import suite
from v14.check.client import ChatClient
from v14.check.questions import NUM_FACTS, english
from v14.check.run import STORE_ROWS, check_directory, passed
from v14.check.server import Server
from v14.check.suite import AFTER_RESTART
from v14.errors import CheckError


@pytest.fixture
def behave(tmp_path, monkeypatch):
    """Put a stand-in in SGLang's place that behaves as told."""
    command = tmp_path / "sglang"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("fake_sglang.py")} "$@"\n')
    command.chmod(0o755)
    monkeypatch.setattr(server_module, "sglang_executable", lambda: str(command))
    return lambda behaviour: monkeypatch.setenv("FAKE_BEHAVIOUR", behaviour)


@pytest.fixture
def model_dir(tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    return directory


def server_of(tmp_path, model_dir, **options):
    (tmp_path / "home").mkdir(exist_ok=True)
    return Server(model_dir=model_dir, home=tmp_path / "home", log=tmp_path / "server.log", **options)


def ended(pid):
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_start_restart_stop(tmp_path, model_dir, behave, monkeypatch):
    behave("good")
    monkeypatch.setenv("SGLANG_V14_TRACE", "1")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with server_of(tmp_path, model_dir, arguments=["--dtype", "float32"]) as server:
        for _ in range(2):
            server.start()
            assert server.running
            assert ChatClient(url=server.url).healthy()
            server.stop()
            assert not server.running
    log = (tmp_path / "server.log").read_text()
    assert log.count("stopped in order") == 2
    assert "'--device', 'cpu'" in log
    assert "'--dtype', 'float32'" in log
    assert f"home {tmp_path / 'home'} trace None" in log
    assert server.tracebacks() == 0


def test_gpu_gets_no_cpu_arguments(tmp_path, model_dir, behave, monkeypatch):
    behave("good")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with server_of(tmp_path, model_dir) as server:
        server.start()
    assert "--device" not in (tmp_path / "server.log").read_text()


def test_a_server_that_stops_while_starting_is_an_error_with_its_log(tmp_path, model_dir, behave):
    behave("broken")
    with server_of(tmp_path, model_dir) as server, pytest.raises(CheckError, match="made up"):
        server.start()
    assert server.tracebacks() == 1


def test_stop_ends_the_whole_process_group(tmp_path, model_dir, behave):
    behave("forking")
    with server_of(tmp_path, model_dir) as server:
        server.start()
        child = int((tmp_path / "server.log").read_text().split("child ")[1].split()[0])
        os.kill(child, 0)
    assert ended(child)


def test_check_of_a_directory_restarts_and_still_knows(tmp_path, model_dir, behave):
    behave("good")
    phases = []
    report = check_directory(
        model_dir,
        english(1),
        seed=1,
        work=tmp_path / "work",
        phase=lambda name, total: phases.append(name) or list,
    )
    for name in ("facts", "right_event_recalled"):
        assert report.value(name) == report.value(name + AFTER_RESTART) == NUM_FACTS
    assert report.value("unrelated_recalling" + AFTER_RESTART) == 0
    assert report.value("tracebacks") == 0
    assert set(report.skipped) == {*STORE_ROWS, "picture", "picture_same_chat", "accept_length"}
    assert passed(report)
    assert {"start the server", "restart the server"} <= set(phases)


def test_tracebacks_in_the_log_fail_the_check(tmp_path, model_dir, behave, monkeypatch):
    behave("failing")
    monkeypatch.setattr(suite, "DROP_PATIENCE_S", 0.1)
    report = check_directory(model_dir, english(1), seed=1, work=tmp_path / "work", phase=lambda name, total: list)
    assert report.value("tracebacks") == 2
    assert not passed(report)


def test_no_model_directory(tmp_path):
    with pytest.raises(CheckError, match="no model directory"):
        check_directory(tmp_path, english(0), seed=0, work=tmp_path / "work", phase=lambda name, total: list)
