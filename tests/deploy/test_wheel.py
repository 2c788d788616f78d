"""The wheel holds the package and nothing else, and is a command in an environment of its own. `make test-slow`."""

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from what a clean checkout has, so that nothing left over by earlier builds gets in."""
    room = tmp_path_factory.mktemp("wheel")
    shutil.copytree(SOURCES, room / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, room)
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", room / "dist", room], check=True)
    return next((room / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """An environment with the wheel and nothing that it depends on."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", wheel], check=True)
    return environment


def run_in(environment, command, *arguments):
    """Run a command of the environment, with nothing of this process's own."""
    clean = {"PATH": "/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"}
    return subprocess.run(
        [environment / "bin" / command, *arguments], capture_output=True, text=True, cwd="/", env=clean
    )


def test_it_holds_the_package_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    information = {name for name in names if ".dist-info/" in name}
    sources = {
        path.relative_to(SOURCES).as_posix()
        for path in (SOURCES / "v14").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names - information == sources
    assert {"v14/py.typed", "v14/upgrade/templates/modeling_v14.py.txt", "v14/check/data/values.txt"} <= names
    endings = {name.split(".dist-info/")[1] for name in information}
    assert endings == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}


def test_it_registers_the_command_and_the_plugin(wheel):
    archive = zipfile.ZipFile(wheel)
    entry_points = archive.read(next(name for name in archive.namelist() if name.endswith("entry_points.txt"))).decode()
    assert "[console_scripts]\nv14 = " in entry_points
    assert "[sglang.srt.plugins]\nv14 = v14.engines.sglang.plugin:load" in entry_points


def test_doctor_needs_nothing_beside_it(bare):
    run = run_in(bare, "v14", "doctor")
    assert run.returncode == 1
    assert "torch" in run.stdout
    assert "Traceback" not in run.stderr


def test_it_is_a_command_where_its_dependencies_are(bare):
    site_packages = next((bare / "lib").glob("python*/site-packages"))
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run = run_in(bare, "v14", "--help")
    assert run.returncode == 0, run.stderr
    for command in ("upgrade", "check", "doctor", "store"):
        assert command in run.stdout
    where = run_in(bare, "python", "-c", "import v14; print(v14.__file__)")
    assert where.stdout.startswith(str(bare))
