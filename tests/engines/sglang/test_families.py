"""A V14 directory of every family in SGLang, without memory and with it: served, or what is lacking, by name.

Random tiny weights, fp32, a CPU, where SGLang has no attention sinks and none of Qwen4-Exp's indexed attention.
"""

import json
import math
from dataclasses import dataclass

import pytest

from tests.hybrid_serving import EXTRA_BUFFER, serving_of
from tests.serving import distributions, flush_cache, generate, turn
from tests.tiny import EVERY_FAMILY, tiny_checkpoint, tiny_v14, turns_of
from v14.errors import CheckError
from v14.types import MAX_EVENT_TOKENS

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """What stands in the log of a server that does not start, `plain` and `with_memory`.

    `changes` are made to the language model's configuration.
    """

    family: str
    plain: str
    with_memory: str
    arguments: tuple[str, ...] = ()
    changes: tuple[tuple[str, int], ...] = ()


NO_SINKS = "TorchNativeAttnBackend.forward_extend() got an unexpected keyword argument 'sinks'"
NO_MODEL = "Qwen4ExpForCausalLM has no SGlang implementation"
OTHER_CONFIG = "assert vision_config is None"
"""SGLang's configuration of Nemotron-H Omni wants its language model as `llm_config`."""

LACKING = {
    "gpt_oss, sliding layers apart": Lacking(
        family="gpt_oss", plain=NO_SINKS, with_memory="serve with --disable-hybrid-swa-memory"
    ),
    "gpt_oss": Lacking(
        family="gpt_oss",
        plain=NO_SINKS,
        with_memory="attention sinks by TorchNativeAttnBackend",
        arguments=("--disable-hybrid-swa-memory",),
    ),
    "nemotron_h_omni": Lacking(family="nemotron_h_omni", plain=OTHER_CONFIG, with_memory=OTHER_CONFIG),
    "qwen4_exp": Lacking(family="qwen4_exp", plain=NO_MODEL, with_memory=NO_MODEL),
    "qwen4_exp_vl": Lacking(
        family="qwen4_exp_vl",
        # Hyper-connections in bf16, whatever the model's dtype is.
        plain="expected m1 and m2 to have the same dtype",
        with_memory="attention by QwenSparseAttnBackend: an index chooses its keys",
        arguments=EXTRA_BUFFER,
        # SGLang's index keeps 512 or 2048 blocks; the tiny one keeps four.
        changes=(("indexer_budget", 4096),),
    ),
}
SERVED = [family for family in EVERY_FAMILY if family not in {case.family for case in LACKING.values()}]


@pytest.mark.parametrize("family", SERVED)
def test_served_without_memory_and_with_it(family, tmp_path):
    checkpoint = tiny_checkpoint(family)
    model_dir = tiny_v14(family, tmp_path / "model", write_generated=False, engram_rank=MAX_EVENT_TOKENS)
    head, told = turn(checkpoint, "system", 9, seed=1), turn(checkpoint, "user", 70, seed=2)
    prompt = [*turn(checkpoint, "user", 23, seed=3), *turns_of(checkpoint).openings["assistant"]]
    for switch in "01":
        with serving_of(family, model_dir, tmp_path / f"memory {switch}", SGLANG_V14_MEMORY=switch) as server:
            generate(server, head + told)
            flush_cache(server)
            asked = generate(server, head + prompt, logprobs=True)
            read = generate(server, head + told + prompt, logprobs=True, mode="off")
            assert server.tracebacks() == 0
        rows, expected = distributions(asked), distributions(read)
        assert all(math.isfinite(value) for row in rows for value in row.values())
        distance = max(abs(rows[0][token] - expected[0][token]) for token in expected[0])
        if switch == "0":
            assert "v14" not in asked["meta_info"]
            assert distance > 1e-2
        else:
            assert [event["num_tokens"] for event in asked["meta_info"]["v14"]["recalled"]] == [70]
            assert distance < 1e-4


@pytest.mark.parametrize("name", LACKING)
@pytest.mark.parametrize("switch", ["0", "1"])
def test_what_is_lacking_is_named(name, switch, tmp_path):
    case = LACKING[name]
    model_dir = tiny_v14(case.family, tmp_path / "model")
    file = model_dir / "config.json"
    config = json.loads(file.read_text())
    config.get("text_config", config).update(case.changes)
    file.write_text(json.dumps(config))
    server = serving_of(case.family, model_dir, tmp_path / "memory", *case.arguments, SGLANG_V14_MEMORY=switch)
    with pytest.raises(CheckError), server:
        pass
    assert (case.with_memory if switch == "1" else case.plain) in (tmp_path / "memory.log").read_text()
