"""The doctor: it always speaks, names what is wrong, and says what to do."""

import ast
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from tests.store.making import WEIGHTS, made
from tests.tiny import tiny_v14
from v14.config import ENV_PREFIX, Switches
from v14.doctor import directory, engine, environment, gpu, packages, run, store
from v14.doctor.finding import Finding, fail, ok, render, warn
from v14.doctor.probing import probe
from v14.store.directory import DirectoryStore

SOURCE = Path(packages.__file__).parents[2]


def levels(findings, subject=None):
    return [finding.level for finding in findings if subject in (None, finding.subject)]


def only(findings, level):
    found = [finding for finding in findings if finding.level == level]
    assert len(found) == 1, found
    return found[0]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python with nothing installed, and the package's code without the metadata that stands beside it in a clone."""
    room = tmp_path_factory.mktemp("bare")
    (room / "source").mkdir()
    (room / "source/v14").symlink_to(SOURCE / "v14")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", room / "venv"], check=True)
    return room


def ask(bare, *arguments, packages=None, **environment):
    path = os.pathsep.join(map(str, filter(None, (bare / "source", packages))))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    done = subprocess.run(
        [bare / "venv/bin/python", "-m", "v14", "doctor", "--json", *arguments],
        env=clean | {"PYTHONPATH": path, "SGLANG_V14_MEMORY_HOME": str(bare / "memory")} | environment,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, [Finding(**finding) for finding in json.loads(done.stdout)]


def test_it_speaks_where_nothing_is_installed(bare):
    status, findings = ask(bare)
    assert status == 1
    assert levels(findings, "sglang-v14") == ["fail"]
    assert levels(findings, "plugin") == ["fail"]
    assert levels(findings, "store") == ["ok", "ok", "ok"]
    assert "fail" not in levels(findings, "python")
    assert all(finding.remedy for finding in findings if finding.level != "ok")


def install(room, name, source):
    """A package that is installed as far as its metadata goes, with `source` as its code."""
    (room / name).mkdir(parents=True)
    (room / name / "__init__.py").write_text(source)
    (room / f"{name}-9.9.dist-info").mkdir()
    (room / f"{name}-9.9.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")


def test_a_package_that_raises_and_one_that_kills_the_process_are_told_apart_by_name(bare, tmp_path):
    install(tmp_path, "transformers", "raise ImportError('libfoo.so is missing')")
    install(tmp_path, "sglang", "import os; os.abort()")
    _, findings = ask(bare, packages=tmp_path)
    raising, dying = (only([f for f in findings if f.subject == name], "fail") for name in ("transformers", "sglang"))
    assert "libfoo.so is missing" in raising.text
    assert "ended with status -6" in dying.text
    assert "reinstall sglang 9.9" in dying.remedy


def test_an_unknown_variable_is_named_with_the_one_that_was_meant(bare):
    _, findings = ask(bare, SGLANG_V14_MEMROY_HOME="/x")
    assert "SGLANG_V14_MEMORY_HOME" in only([f for f in findings if f.subject == "environment"], "fail").remedy


def test_a_part_that_fails_is_a_finding(monkeypatch):
    def broken(steps):
        raise RuntimeError("metadata gone")

    monkeypatch.setattr(run, "probe", lambda arguments: {})
    monkeypatch.setattr(packages, "examine", broken)
    assert any("metadata gone" in finding.text for finding in run.examine(None))


def test_it_imports_the_standard_library_and_nothing_else():
    for path in Path(run.__file__).parent.glob("*.py"):
        nodes = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        names = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
        names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
        outside = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
        if path.name != "steps.py":
            assert all(name == "v14" or name.startswith("v14.doctor") for name in outside), path


def test_its_copies_of_names_are_those_of_the_package():
    assert environment.known_names() == [ENV_PREFIX + field.name.upper() for field in fields(Switches)]
    assert Path(environment.DEFAULT_HOME) == Switches().memory_home


def test_a_bad_value_is_reported_as_the_server_would():
    steps = {"environment": {"error": "OptionError: SGLANG_V14_MAX_BUFFER_GB='x' is not a number"}}
    found = list(environment.examine(steps, {"SGLANG_V14_MAX_BUFFER_GB": "x"}))
    assert "MAX_BUFFER_GB='x'" in only(found, "fail").text


def test_what_the_environment_names_is_read_and_no_secret_is_shown(tmp_path, monkeypatch):
    (tmp_path / "keys.toml").write_text("no keys")
    monkeypatch.setenv("SGLANG_V14_NAMESPACES", "keyed")
    monkeypatch.setenv("SGLANG_V14_KEYS", str(tmp_path / "keys.toml"))
    assert "SGLANG_V14_KEYS" in only(environment.examine(probe([]), {}), "fail").text
    assert "5ec4e7" not in render(environment.examine({}, {"SGLANG_V14_KEY": "5ec4e7"}))


def test_seams(monkeypatch):
    value = {"tested": "1.2", "problems": ["sglang.a has no parameter b: why"], "found": ["sglang.c"]}
    found = list(engine.examine({"sglang": {"value": ""}, "seams": {"value": value}}))
    assert levels(found, "seam") == ["fail", "ok"]
    assert "1.2" in only(found, "fail").remedy
    monkeypatch.setenv("SGLANG_PLUGINS", "other")
    assert "SGLANG_PLUGINS" in only(engine.examine({"sglang": {"error": "gone"}}), "fail").remedy


@pytest.mark.parametrize(
    ("script", "level", "text"),
    [
        ("echo 'H200, 570.1, 143771 MiB, 143000 MiB'", "ok", "H200"),
        ("echo 'Failed to initialize NVML' >&2; exit 9", "warn", "NVML"),
    ],
)
def test_gpu(script, level, text, tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (found,) = gpu.examine()
    assert found.level == level
    assert text in found.text


def test_no_gpu_is_no_failure(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert levels(gpu.examine()) == ["ok"]


@pytest.fixture
def stored(tmp_path):
    opened = DirectoryStore.open(tmp_path / "memory", WEIGHTS)
    opened.put([made(1)])
    assert opened.flush(20)
    yield opened
    opened.close()


def test_a_store_in_use_and_one_that_is_not(stored):
    home = stored.path.parent
    assert f"in use by process {os.getpid()}" in render(store.examine(home, {}))
    stored.close()
    found = list(store.examine(home, {}))
    assert "1 events" in render(found)
    assert "not in use" in render(found)
    assert "fail" not in levels(found, "store")


def test_a_store_that_others_can_read(stored):
    stored.path.chmod(0o755)
    assert (
        "chmod 700" in only([f for f in store.examine(stored.path.parent, {}) if f.subject == "store"], "warn").remedy
    )


def test_a_store_of_a_later_format_and_one_that_is_damaged(stored):
    stored.close()
    home, catalog = stored.path.parent, stored.path / "catalog.sqlite3"
    with sqlite3.connect(catalog) as database:
        database.execute("UPDATE events SET corrupt = 1")
    database.close()
    assert "1 events" in only([f for f in store.examine(home, {}) if f.subject == "store"], "warn").text
    assert (
        "format"
        in only([f for f in store.examine(home, {"catalog": {"value": 0}}) if f.subject == "store"], "fail").text
    )
    catalog.write_bytes(b"no database at all" * 100)
    assert "cannot be read" in only([f for f in store.examine(home, {}) if f.subject == "store"], "fail").text


def test_a_home_that_is_a_file_or_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    assert "SGLANG_V14_MEMORY_HOME" in only(store.examine(tmp_path / "file", {}), "fail").remedy
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "cannot write" in only(store.examine(tmp_path / "none/below", {}), "fail").text


def test_a_disk_that_is_nearly_full_and_one_on_the_network(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_file_system", lambda place: "nfs4")
    assert "nfs4" in only([f for f in store.examine(tmp_path, {}) if f.subject == "store"], "warn").text
    for free, level in ((1 << 20, "fail"), (1 << 30, "warn"), (1 << 40, "ok")):
        monkeypatch.setattr(shutil, "disk_usage", lambda place, free=free: shutil._ntuple_diskusage(1 << 41, 0, free))
        assert levels(store.examine(tmp_path, {}), "disk")[0] == level


def test_a_directory_whole_incomplete_and_with_other_weights(tmp_path):
    model = tiny_v14("llama", tmp_path / "model")
    steps = probe([str(model)])
    value = steps["directory"]["value"]
    # A tiny directory names weights that it does not have.
    assert value["computed_id"] in only(directory.examine(model, steps), "fail").text
    steps = {"directory": {"value": value | {"computed_id": value["weights_id"]}}}
    found = list(directory.examine(model, steps))
    assert set(levels(found)) == {"ok"}
    assert [finding.text for finding in found if finding.subject == "ranks"] == ["served with --tp-size 1, 2, 4"]
    broken = {"directory": {"error": "OptionError: recall_flor: Extra inputs are not permitted"}}
    assert "recall_flor" in only(directory.examine(model, broken), "fail").text
    (weights,) = model.glob("*.safetensors")
    weights.unlink()
    weights.symlink_to(tmp_path / "nothing")
    assert "may point to nothing" in only(directory.examine(model, steps), "fail").text
    (model / "v14/profile.json").unlink()
    assert "v14/profile.json" in only(directory.examine(model, steps), "fail").text


def test_status_and_forms(monkeypatch, capsys):
    found = [ok("a", "fine"), warn("b", "hm", "look"), ok("seam", "sglang.x")]
    monkeypatch.setattr(run, "examine", lambda model: found)
    assert run.main([]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 ok, 1 to look at, 0 to mend"
    found.append(fail("c", "no", "do"))
    assert run.main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out)[-1] == {"level": "fail", "subject": "c", "text": "no", "remedy": "do"}


def test_a_shared_store_is_asked_for_and_no_password_is_shown():
    url = "postgresql://me:secret@db/memory?segments=s3://bucket"
    assert environment.home({"SGLANG_V14_MEMORY_HOME": url}) is None
    findings = list(environment.examine({}, {"SGLANG_V14_MEMORY_HOME": url}))
    assert "SGLANG_V14_MEMORY_HOME=postgresql://me@db/memory?segments=s3://bucket" in findings[0].text
    [unreachable] = store.examine(None, {"shared": {"error": "StoreError: the shared store cannot be read"}})
    assert (unreachable.level, "cannot be read" in unreachable.text) == ("fail", True)
    lines = ["sha256:0123…: 7 events in s3://bucket/v14_0"]
    assert levels(store.examine(None, {"shared": {"value": lines}})) == ["ok"]
    assert levels(store.examine(None, {"shared": {"value": []}})) == ["ok"]
