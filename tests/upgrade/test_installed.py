"""What is said of models that the installed libraries lack."""

import sys
from types import SimpleNamespace

import pytest

from v14.errors import UnsupportedModelError
from v14.models.registry import ADAPTERS
from v14.upgrade.installed import check_transformers, served_by, sglang_line


@pytest.mark.parametrize("name", ADAPTERS)
def test_transformers_has_every_supported_model(name):
    check_transformers(ADAPTERS[name])


@pytest.mark.parametrize("missing", ["GptOssForCausalLM", "GptOssConfig"])
def test_a_model_that_transformers_lacks_is_refused_by_name(monkeypatch, missing):
    there = {"GptOssForCausalLM", "GptOssConfig"} - {missing}
    older = SimpleNamespace(__version__="5.0", **dict.fromkeys(there))
    monkeypatch.setattr("v14.upgrade.installed.transformers", older)
    with pytest.raises(UnsupportedModelError, match=f"Transformers 5.0 has no {missing}.*install"):
        check_transformers(ADAPTERS["GptOssForCausalLM"])


@pytest.fixture
def some_sglang(tmp_path, monkeypatch):
    """An SGLang 0.0.1 that has Llama only."""
    models = tmp_path / "sglang" / "srt" / "models"
    models.mkdir(parents=True)
    (tmp_path / "sglang" / "__init__.py").write_text("raise RuntimeError('must not be imported')\n")
    (models / "llama.py").write_text("class LlamaForCausalLM(nn.Module):\n    pass\n")
    room = tmp_path / "sglang-0.0.1.dist-info"
    room.mkdir()
    (room / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.0.1\n")
    monkeypatch.delitem(sys.modules, "sglang", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "sglang"


def test_a_model_that_sglang_lacks_is_named(some_sglang):
    assert served_by(some_sglang) == {"LlamaForCausalLM"}
    assert sglang_line(ADAPTERS["LlamaForCausalLM"]) is None
    line = sglang_line(ADAPTERS["Qwen4ExpForCausalLM"])
    assert "SGLang 0.0.1 has no Qwen4ExpForCausalLM" in line


def test_without_sglang_nothing_is_said(monkeypatch):
    monkeypatch.setattr("v14.upgrade.installed.find_spec", lambda name: None)
    assert sglang_line(ADAPTERS["LlamaForCausalLM"]) is None
