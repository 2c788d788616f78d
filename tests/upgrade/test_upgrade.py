"""Upgrading tiny random checkpoints of every family, and refusing what cannot be upgraded."""

import json
import math
import shutil
from dataclasses import replace

import pytest
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from tests.hf import options, remembering
from tests.tiny import EVERY_FAMILY, HYBRIDS, REREAD_ONLY, chat_ids, tiny_checkpoint
from v14.errors import OptionError, UnsupportedModelError, UpgradeError
from v14.models import adapter_for
from v14.profile import Profile
from v14.upgrade import Silent, upgrade
from v14.upgrade.calibration import build, doubts
from v14.upgrade.directory import whole_or_nothing
from v14.upgrade.weights import weights_id


def tree(directory):
    """Names, bytes and change times of everything."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def copy_of(family, path, **changes):
    """The tiny checkpoint at `path`, with keys of its config replaced."""
    shutil.copytree(tiny_checkpoint(family), path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, **changes}))
    return path


REREAD = (*HYBRIDS, *REREAD_ONLY)
"""Families whose events are read again unless their options say otherwise."""

WHOLE_SET = ("llama",)
"""Upgraded with the calibration sets that people get; small ones do for the others."""


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory):
    """V14 directories by family, made once."""
    made = {}

    def make(family):
        if family not in made:
            out = tmp_path_factory.mktemp(family) / "out"
            report = Silent()
            with pytest.MonkeyPatch.context() as patch:
                if family not in WHOLE_SET:
                    make_small(patch)
                upgrade(tiny_checkpoint(family), out, link="copy", report=report)
            made[family] = (out, report)
        return made[family]

    return make


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_the_directory_is_whole(upgraded, family):
    out, report = upgraded(family)
    source = tiny_checkpoint(family)
    config, plain = (json.loads((path / "config.json").read_text()) for path in (out, source))
    adapter = adapter_for(plain)
    profile = Profile.load(out)
    assert config.pop("architectures") == [adapter.v14_name]
    assert set(config.pop("auto_map").values()) == {
        f"configuration_v14.{adapter.v14_name.partition('For')[0]}Config",
        f"modeling_v14.{adapter.v14_name}",
    }
    assert config.pop("v14")["reinstate"] == ("reread" if family in REREAD else "kv")
    assert {**config, "architectures": plain["architectures"]} == plain
    assert profile.base_architecture == adapter.architecture
    assert profile.geometry == adapter.geometry(plain)
    assert profile.weights_id == weights_id(source)
    assert set(profile.turns.openings) >= {"user", "assistant"}
    layers = [layer.index for layer in profile.geometry.layers]
    assert set(profile.voters.layers) <= set(layers[: math.ceil(len(layers) * 2 / 3)])
    assert len(profile.voters.sinks) == (len(profile.voters.heads) if family == "gpt_oss" else 0)
    assert {"top1", "top5", "auc", "kept", "recalling", "right_in_plan"} <= set(profile.measured)
    assert any("AUC" in line for line in report.lines)
    # Random weights know nothing, and the upgrade has to say so.
    assert not profile.measured["separates"]
    assert any("WARNING" in line for line in report.lines)
    assert any("read again" in line for line in report.lines) == (family in REREAD)
    for file in source.iterdir():
        if file.name != "config.json":
            assert (out / file.name).read_bytes() == file.read_bytes()
    assert not list(out.parent.glob(".*"))


@torch.no_grad()
def logits_after(model):
    ids = torch.randint(5, 900, (1, 40), generator=torch.Generator().manual_seed(4))
    return model.eval()(ids).logits


@pytest.fixture
def only_transformers(monkeypatch):
    """No other library's configuration classes: importing SGLang registers some, and those win over remote code."""
    monkeypatch.setattr(CONFIG_MAPPING, "_extra_content", {})


@pytest.mark.usefixtures("only_transformers")
@pytest.mark.parametrize("memory", ["0", "1"])
@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_transformers_loads_it(upgraded, family, memory, monkeypatch, tmp_path):
    """The remote code gives the library's own class, by whichever of its names, and the same logits."""
    monkeypatch.setenv("SGLANG_V14_MEMORY", memory)
    monkeypatch.setenv("SGLANG_V14_MEMORY_HOME", str(tmp_path))
    out, _ = upgraded(family)
    adapter = adapter_for(json.loads((tiny_checkpoint(family) / "config.json").read_text()))
    native = getattr(transformers, adapter.architecture)
    expected = logits_after(native.from_pretrained(tiny_checkpoint(family)))
    names = ["AutoModelForCausalLM"] + ["AutoModelForImageTextToText"] * adapter.takes_pictures
    for name in names:
        model = getattr(transformers, name).from_pretrained(out, trust_remote_code=True)
        assert type(model).__name__ == adapter.v14_name
        assert isinstance(model, native)
        assert type(model.config).__name__.endswith("V14Config")
        assert (model.v14 is None) == (memory == "0")
        if model.v14 is not None:
            model.v14.close()
        torch.testing.assert_close(logits_after(model), expected, atol=1e-5, rtol=0)


@pytest.mark.usefixtures("only_transformers")
def test_a_registered_configuration_class_is_kept(upgraded, monkeypatch, tmp_path):
    """Transformers prefers a class that a library registered for the model type; the memory is there all the same."""
    monkeypatch.setenv("SGLANG_V14_MEMORY_HOME", str(tmp_path))
    # Models are found by the name of the class, so SGLang's has the name of the library's own.
    Registered = type("Lfm2Config", (transformers.Lfm2Config,), {})
    transformers.AutoConfig.register("lfm2", Registered, exist_ok=True)
    out, _ = upgraded("lfm2")
    model = transformers.AutoModelForCausalLM.from_pretrained(out, trust_remote_code=True)
    assert type(model.config) is Registered
    assert model.v14.profile.options == Profile.load(out).options
    model.v14.close()
    expected = logits_after(transformers.Lfm2ForCausalLM.from_pretrained(tiny_checkpoint("lfm2")))
    torch.testing.assert_close(logits_after(model), expected, atol=1e-5, rtol=0)


BOTH_WAYS = [(family, "kv") for family in EVERY_FAMILY if family not in REREAD_ONLY] + [(f, "reread") for f in REREAD]


@pytest.mark.parametrize(("family", "reinstate"), BOTH_WAYS)
def test_a_fact_told_is_recalled(upgraded, family, reinstate, tmp_path):
    """With the floor out of the way, since random weights find nothing: store, vote, plan and span all run."""
    out, _ = upgraded(family)
    told = chat_ids(out, [("user", "The garden door is blue.")])
    asked = chat_ids(out, [("user", "What colour is the garden door?")])
    free = {"recall_floor": -1e9, "recall_ratio": 0.0}
    with remembering(out, tmp_path) as model, options(model, **free, reinstate=reinstate):
        model.generate(torch.tensor([told]), max_new_tokens=1, v14_memory="write")
        assert model.v14.store.flush(timeout_s=30)
        model.generate(torch.tensor([asked]), max_new_tokens=2, v14_memory="read")
        assert [event.role for event in model.v14_last.plan.events] == ["user"]
        assert model.v14_last.reinstated == reinstate
        assert not [name for name in model.v14.counters if name.startswith("failed")]


def test_events_that_cannot_be_placed_are_not_placed_by_an_option(upgraded, tmp_path):
    out = shutil.copytree(upgraded("qwen4_exp")[0], tmp_path / "out")
    config = json.loads((out / "config.json").read_text())
    config["v14"]["reinstate"] = "kv"
    (out / "config.json").write_text(json.dumps(config))
    with pytest.raises(OptionError, match="Qwen4ExpForCausalLM can only be read again; write 'reread'"):
        Profile.load(out)


def test_again_changes_nothing_and_says_so(upgraded):
    out, _ = upgraded("llama")
    before = tree(out)
    report = Silent()
    profile = upgrade(tiny_checkpoint("llama"), out, report=report)
    assert tree(out) == before
    assert profile.weights_id == weights_id(tiny_checkpoint("llama"))
    assert ["nothing to do" in line for line in report.lines] == [True]


@pytest.mark.parametrize("link", ["hardlink", "symlink"])
def test_links(monkeypatch, tmp_path, link):
    make_small(monkeypatch)
    source = copy_of("llama", tmp_path / "src")
    out = tmp_path / "out"
    upgrade(source, out, link=link, report=Silent())
    weights = out / "model.safetensors"
    assert weights.is_symlink() == (link == "symlink")
    assert weights.samefile(source / "model.safetensors")
    assert not (out / "config.json").samefile(source / "config.json")


def make_small(patch):
    """Calibration sets of two kinds of facts and a few of everything else: enough to run every line of an upgrade."""
    patch.setattr("v14.upgrade.make.build", small_set)
    patch.setattr(doubts, "KINDS", doubts.KINDS[:2])
    for name, num in {"FACTS": 8, "STRANGERS": 8, "CHAINS": 2, "TALK": 2}.items():
        patch.setattr(doubts, f"NUM_{name}", num)


def small_set(seed):
    """The first set."""
    whole = build(seed, num_kinds=2)
    facts, others = ([q for q in whole.questions if (q.fact is None) == other] for other in (False, True))
    told, talk = ([chat for chat in whole.chats if (chat.fact is None) == other] for other in (False, True))
    return replace(whole, chats=(*told, *talk[:6]), questions=(*facts, *others[:8]))


def refuse(source, out, error, match):
    parent = sorted(out.parent.iterdir())
    with pytest.raises(error, match=match):
        upgrade(source, out, report=Silent())
    assert sorted(out.parent.iterdir()) == parent


def test_refusals_name_what_is_wrong_and_leave_nothing(tmp_path):
    (tmp_path / "room").mkdir()
    out = tmp_path / "room" / "out"
    dynamic = {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}
    refuse(copy_of("llama", tmp_path / "a", **dynamic), out, UnsupportedModelError, "dynamic")
    refuse(copy_of("llama", tmp_path / "b", architectures=["MambaForCausalLM"]), out, UnsupportedModelError, "Mamba")
    refuse(copy_of("llama", tmp_path / "l", architectures=["Lfm3ForCausalLM"]), out, UnsupportedModelError, "Lfm3")
    quantised = {"quantization_config": {"quant_method": "awq"}}
    refuse(copy_of("llama", tmp_path / "c", **quantised), out, UnsupportedModelError, "awq")
    inner = json.loads((tiny_checkpoint("qwen3_5_vl") / "config.json").read_text())["text_config"] | quantised
    refuse(copy_of("qwen3_5_vl", tmp_path / "q", text_config=inner), out, UnsupportedModelError, "awq")
    elsewhere = copy_of("llama", tmp_path / "m")
    (elsewhere / "hf_quant_config.json").write_text("{}")
    refuse(elsewhere, out, UnsupportedModelError, "modelopt")
    bare = copy_of("llama", tmp_path / "d")
    (bare / "model.safetensors").unlink()
    refuse(bare, out, UpgradeError, "safetensors")
    cut = copy_of("llama", tmp_path / "e")
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:100])
    refuse(cut, out, UpgradeError, "model.safetensors")
    silent = copy_of("llama", tmp_path / "f")
    for file in silent.glob("tokenizer*"):
        file.unlink()
    refuse(silent, out, UpgradeError, "tokenizer")
    refuse(tmp_path / "nowhere", out, UpgradeError, "nowhere")


def test_an_out_of_another_kind_is_left_alone(upgraded, tmp_path):
    out, _ = upgraded("llama")
    refuse(tiny_checkpoint("qwen2"), out, UpgradeError, "other weights")
    refuse(out, tmp_path / "again", UpgradeError, "V14 directory already")
    (tmp_path / "mine").mkdir()
    refuse(tiny_checkpoint("llama"), tmp_path / "mine", UpgradeError, "no V14 directory")
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_failure_in_the_middle_leaves_nothing(tmp_path):
    def fail():
        with whole_or_nothing(tmp_path / "out") as room:
            (room / "file").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_the_weights_id_follows_the_weights(tmp_path):
    one, two = copy_of("llama", tmp_path / "one"), copy_of("llama", tmp_path / "two")
    assert weights_id(one) == weights_id(two) != weights_id(tiny_checkpoint("qwen2"))
    file = two / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    size = file.stat().st_size
    if size < 64 * 4096:  # all of it is sampled
        assert weights_id(one) != weights_id(two)
    file.write_bytes(data + b"\0")
    assert weights_id(one) != weights_id(two)
    # Every step of training moves every weight, so a sample sees it.
    header = int.from_bytes(data[:8], "little") + 8
    file.write_bytes(data[:header] + bytes(byte ^ 1 for byte in data[header:]))
    assert weights_id(one) != weights_id(two)
