"""Starting: what cannot work is refused, what is broken costs the recall only."""

import shutil
import subprocess
import sys

import pytest
import torch
from sglang.srt.plugins.hook_registry import HookRegistry

from tests.serving import generate, serving, turn
from tests.tiny import tiny_checkpoint, tiny_profile, tiny_v14, turns_of
from v14.config import Switches
from v14.engines.sglang import plugin, symbols
from v14.errors import CheckError
from v14.memory import Memory
from v14.types import Trace

pytestmark = pytest.mark.engine

FAMILY = "llama"


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return tiny_v14(FAMILY, tmp_path_factory.mktemp("start") / "model")


@pytest.fixture(scope="module")
def prompt():
    checkpoint = tiny_checkpoint(FAMILY)
    opening = list(turns_of(checkpoint).openings["assistant"])
    return lambda seed: turn(checkpoint, "system", 9, seed=1) + turn(checkpoint, "user", 30, seed=seed) + opening


def test_every_unserved_argument_is_named_before_anything_starts(model_dir, tmp_path):
    with (
        pytest.raises(CheckError) as refused,
        serving(model_dir, tmp_path / "m", "--disable-radix-cache", "--json-model-override-args", '{"rope_theta": 7}'),
    ):
        pass
    assert "--disable-radix-cache" in str(refused.value)
    assert "--json-model-override-args" in str(refused.value)


def test_an_unknown_switch_stops_the_process(monkeypatch):
    monkeypatch.setenv("SGLANG_V14_MEMROY", "1")
    with pytest.raises(SystemExit, match="SGLANG_V14_MEMROY"):
        plugin.load()


@pytest.mark.slow
def test_an_unknown_switch_stops_the_server(model_dir, tmp_path):
    with (
        pytest.raises(CheckError, match="SGLANG_V14_MEMROY"),
        serving(model_dir, tmp_path / "m", SGLANG_V14_MEMROY="1"),
    ):
        pass


def test_without_memory_one_hook_is_left(monkeypatch):
    """It takes the memory's options out of the configuration, so that the directory is served like any other."""
    registered = []
    monkeypatch.setenv("SGLANG_V14_MEMORY", "0")
    monkeypatch.setattr(HookRegistry, "register", lambda target, *_: registered.append(target))
    plugin.load()
    assert registered == [symbols.PARSE_CONFIG.target]


def test_a_store_that_cannot_be_opened_is_no_store(tmp_path, caplog):
    (tmp_path / "memory").write_text("not a directory")
    memory = Memory.open(tiny_profile(FAMILY), Switches(memory_home=tmp_path / "memory"))
    assert not memory.available
    assert memory.counters["store_unavailable"] == 1
    assert "SGLANG_V14_MEMORY_HOME" in caplog.text


@pytest.mark.slow
def test_a_store_that_cannot_be_opened_leaves_a_server(model_dir, prompt, tmp_path):
    (tmp_path / "memory").write_text("not a directory")
    with serving(model_dir, tmp_path / "memory") as server:
        assert len(generate(server, prompt(1))["output_ids"]) == 4
        assert "SGLANG_V14_MEMORY_HOME" in server.log.read_text()


def told(home, prompts):
    """Remember prompts in a store that no server has written yet, with traces of any values."""
    memory = Memory.open(tiny_profile(FAMILY), Switches(memory_home=home))
    geometry = memory.profile.geometry
    for ids in prompts:
        cuts = memory.session("n").unknown(ids)
        shapes = [(len(geometry.layers), c.event.num_tokens, geometry.num_kv_heads, geometry.head_dim) for c in cuts]
        memory.session("n").keep(
            [
                (cut.event, Trace(keys=torch.rand(shape), values=torch.rand(shape)))
                for cut, shape in zip(cuts, shapes, strict=True)
            ]
        )
    memory.close()


def vanish(home):
    """Remove a store that a server may be writing into at this moment."""
    for _ in range(1000):
        shutil.rmtree(home, ignore_errors=True)
        if not home.exists():
            return
    raise AssertionError(f"{home} is still there")


def test_broken_events_and_a_vanished_disk_cost_the_recall_only(model_dir, prompt, tmp_path):
    home = tmp_path / "memory"
    told(home, map(prompt, (1, 2)))
    segments = sorted(home.glob("*/segments/*.safetensors"))
    assert segments
    for segment in segments:
        data = bytearray(segment.read_bytes())
        data[-40:] = b"\xff" * 40
        segment.write_bytes(data)
    with serving(model_dir, home) as server:
        reply = generate(server, prompt(3))
        assert len(reply["output_ids"]) == 4
        assert "set aside" in server.log.read_text()
        vanish(home)
        for seed in (4, 5):
            assert len(generate(server, prompt(seed))["output_ids"]) == 4
        assert server.running


REMOVED_HOOK = """
from sglang.srt.plugins.hook_registry import HookRegistry, HookType
from v14.engines.sglang import symbols
from v14.engines.sglang.hooks import TABLE
from v14.engines.sglang.hooks.start import missing_hooks

for seam, kind, hook in TABLE:
    HookRegistry.register(seam.target, hook, HookType(kind))
HookRegistry.apply_hooks()
assert missing_hooks() == [], missing_hooks()
for seam in symbols.SEAMS:
    HookRegistry._patched.discard(seam.target)
    [line] = missing_hooks()
    assert seam.target in line and seam.why in line
    HookRegistry._patched.add(seam.target)
print("every removed hook was missed")
"""


def test_each_removed_hook_is_missed_at_start():
    done = subprocess.run(
        [sys.executable, "-c", REMOVED_HOOK], capture_output=True, text=True, timeout=120, check=False
    )
    assert "every removed hook was missed" in done.stdout, done.stderr
