"""The clients' examples as they stand, each against the real server, in the environment that `make e2e` makes."""

import os
import re
import subprocess

import pytest

from tests.e2e.conftest import CLIENTS, ROOT

pytestmark = pytest.mark.e2e

EXAMPLES = {
    "openai_sdk": ("ada", "ben", "Bosun", "My dog is called Bosun."),
    "langchain_chat": ("clara", "dan", "Cremona", "My violin was built in Cremona."),
    "litellm_client": ("eva", "finn", "7302", "The gate code of the allotment is 7302."),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_told_in_one_chat_answered_in_another(name, served):
    teller, other, value, statement = EXAMPLES[name]
    script = ROOT / "examples" / f"{name}.py"
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    run = subprocess.run(
        [CLIENTS, script, f"{served.url}/v1"], capture_output=True, text=True, env=environment, timeout=300
    )
    print(run.stdout)
    assert run.returncode == 0, run.stderr
    steps = {step.splitlines()[0]: step for step in re.split(r"\n(?=\S)", run.stdout.strip())}
    assert value in answer(steps[f"{teller} asks in a new chat"])
    assert statement in recalled(steps[f"{teller} asks in a new chat"])
    for apart in (f"{other} asks", f"{teller} without memory"):
        assert value not in steps[apart]
        assert "recalled: nothing" in steps[apart]
    if f"{teller} by header" in steps:
        assert statement in recalled(steps[f"{teller} by header"])


def test_every_example_is_run():
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


def recalled(step):
    """The users' statements that a reply was given with."""
    return "\n".join(re.findall(r"^  recalled: user said: (.*)$", step, re.MULTILINE))


def answer(step):
    return re.search(r"^  answer: (.*)$", step, re.MULTILINE)[1]
