"""The files in `deploy/` are what linters and the compose specification want, and say what the package understands."""

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml
from compose_spec import PyCompose

from v14.config import Switches
from v14.engines.sglang.symbols import TESTED_VERSIONS
from v14.home import SharedHome

DEPLOY = Path(__file__).parents[2] / "deploy"
CONTAINERFILE = DEPLOY / "Containerfile"
COMPOSE = sorted(DEPLOY.glob("compose*.yaml"))


def load(path):
    """A compose file with its required variables filled in, as `docker compose` does."""
    return yaml.safe_load(re.sub(r"\$\{(\w+):\?[^}]*\}", r"the-\1", path.read_text()))


def test_containerfile_passes_hadolint():
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    run = subprocess.run([hadolint, CONTAINERFILE], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "")


def test_the_image_adds_the_wheel_and_leaves_the_rest_to_sglang():
    text = re.sub(r"\\\n", " ", CONTAINERFILE.read_text())
    instructions = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert [line.split()[0] for line in instructions] == ["ARG", "FROM", "ARG", "RUN"]
    assert re.search(r"pip install .*sglang_v14-\*\.whl", instructions[-1])
    base = re.fullmatch(r"ARG SGLANG_IMAGE=lmsysorg/sglang:v([\d.]+)", instructions[0])[1]
    assert base in TESTED_VERSIONS


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_compose_files_are_of_the_specification(path):
    services = load(path)["services"]
    assert set(PyCompose.from_yaml(yaml.safe_dump(load(path))).service_names()) == set(services)
    memory = [service for service in services.values() if "Containerfile" in str(service.get("build"))]
    assert memory
    for service in memory:
        assert service["command"].startswith("sglang serve ")
        assert "entrypoint" not in service
        Switches.read(service["environment"])


def test_a_misspelt_key_is_not_of_the_specification():
    compose = load(COMPOSE[0])
    next(iter(compose["services"].values()))["volumez"] = []
    with pytest.raises(ValueError, match="volumez"):
        PyCompose.from_yaml(yaml.safe_dump(compose))


def test_replicas_share_one_store_and_take_namespaces_from_keys():
    services = load(DEPLOY / "compose.shared.yaml")["services"]
    replicas = [services["first"], services["second"]]
    first, second = (Switches.read(replica["environment"]) for replica in replicas)
    assert first == second
    assert isinstance(first.memory_home, SharedHome)
    assert first.memory_home.bucket == "memory"
    assert first.memory_home.conninfo == "postgresql://v14:the-DATABASE_PASSWORD@database/v14"
    assert first.namespaces == "keyed"  # SGLang's router passes on neither our headers nor `user`
    workers = re.findall(r"http://(\w+):30000", services["router"]["command"])
    assert [services[name] for name in workers] == replicas
