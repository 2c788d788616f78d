import threading

import pytest
import torch

from tests.hf import native, remembering
from tests.tiny import geometry_of, tiny_checkpoint, tiny_v14
from v14.config import Switches
from v14.engines.transformers.attention import capture_queries
from v14.errors import DirectoryError, OptionError, UnsupportedModelError
from v14.reinstate.rotation import rotate

IDS = torch.arange(300, 340)[None]


@pytest.fixture
def directory(tmp_path):
    return tiny_v14("qwen3", tmp_path / "model")


def test_captures_the_last_queries_of_the_asked_layers(directory, tmp_path):
    with remembering(directory, tmp_path / "memory") as model, torch.no_grad():
        with capture_queries((0, 2), 7) as capture:
            model(IDS)
        model(IDS)
    geometry = geometry_of(tiny_checkpoint("qwen3"))
    assert {layer: tuple(q.shape) for layer, q in capture.items()} == {0: (7, 4, 32), 2: (7, 4, 32)}
    # Layer 0 by hand: projected, normalised, turned to its position.
    attention = model.model.layers[0].self_attn
    hidden = model.model.layers[0].input_layernorm(model.model.embed_tokens(IDS[0]))
    with torch.no_grad():
        query = attention.q_norm(attention.q_proj(hidden).view(40, 4, 32))
    for place, position in enumerate(range(33, 40)):
        expected = rotate(query[position], geometry.layers[0].rotary, position)
        torch.testing.assert_close(capture[0][place], expected, atol=1e-5, rtol=0)


def test_a_probe_sees_its_own_thread_only(directory, tmp_path):
    with remembering(directory, tmp_path / "memory") as model, capture_queries((0,), 3) as capture:
        other = threading.Thread(target=lambda: model(IDS))
        other.start()
        other.join()
    assert capture == {}


def test_the_same_logits_as_the_librarys_own(directory, tmp_path):
    with remembering(directory, tmp_path / "memory") as model, torch.no_grad():
        assert torch.equal(model(IDS).logits, native(directory)(IDS).logits)


def test_other_attention_is_refused_by_name(directory, tmp_path):
    with (
        pytest.raises(UnsupportedModelError, match="attn_implementation='eager'"),
        remembering(directory, tmp_path / "memory", attn_implementation="eager"),
    ):
        pass
    with remembering(directory, tmp_path / "memory", attn_implementation="sdpa") as model:
        with pytest.raises(UnsupportedModelError, match="SGLANG_V14_MEMORY=0"):
            model.set_attn_implementation("eager")
        model.set_attn_implementation("sdpa")
        assert model.config._attn_implementation == "v14"


def test_without_memory_any_attention_and_no_store(directory, tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_V14_MEMORY", "0")
    with remembering(directory, tmp_path / "memory", attn_implementation="eager") as model:
        assert model.v14 is None
        assert model.config._attn_implementation == "eager"
        assert model.generate(IDS, max_new_tokens=3).shape == (1, 43)
    assert not (tmp_path / "memory").exists()
    assert not Switches.read().memory


def test_a_bad_environment_or_directory_stops_at_once(directory, tmp_path, monkeypatch):
    (directory / "v14" / "profile.json").unlink()
    with pytest.raises(DirectoryError, match="v14 upgrade"), remembering(directory, tmp_path / "memory"):
        pass
    monkeypatch.setenv("SGLANG_V14_MEMROY", "0")
    with pytest.raises(OptionError, match="SGLANG_V14_MEMROY"), remembering(directory, tmp_path / "memory"):
        pass


def test_opened_without_remote_code_it_is_the_plain_model(directory):
    model = native(directory)
    assert type(model).__name__ == "Qwen3ForCausalLM"
    assert type(model).__module__.startswith("transformers.")
