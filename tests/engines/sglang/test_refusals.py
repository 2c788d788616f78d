"""What cannot work is refused at start, by name and all at once."""

import pkgutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from tests.tiny import geometry_of, tiny_checkpoint, tiny_options
from v14.engines.sglang import symbols
from v14.engines.sglang.directory import is_v14_directory
from v14.engines.sglang.server_args import BACKENDS, RULES, SPARSE, refusals, refused_engine
from v14.engines.sglang.shards import refused_ranks

FINE = SimpleNamespace(tp_size=1, page_size=1, attention_backend="torch_native", disaggregation_mode="null")
BAD = {
    "pp_size": 2,
    "dp_size": 2,
    "nnodes": 2,
    "attn_cp_size": 2,
    "dcp_size": 2,
    "dwdp_size": 2,
    "enable_kv_cache_sharding": True,
    "tokenizer_worker_num": 2,
    "page_size": 64,
    "attention_backend": "fa3",
    "prefill_attention_backend": "triton",
    "decode_attention_backend": "triton",
    "cuda_graph_backend_prefill": "full",
    "kv_cache_dtype": "fp4_e2m1",
    "disable_radix_cache": True,
    "enable_hierarchical_cache": True,
    "enable_unified_memory": True,
    "enable_mixed_chunk": True,
    "enable_lora": True,
    "lora_paths": ["x"],
    "radix_cache_backend": "mine",
    "enable_session_radix_cache": True,
    "enable_lmcache": True,
    "enable_flexkv": True,
    "enable_hisparse": True,
    "enable_dp_attention": True,
    "enable_two_batch_overlap": True,
    "enable_pdmux": True,
    "dllm_algorithm": "x",
    "mamba_radix_cache_strategy": "extra_buffer_lazy",
    "enable_int8_mamba_checkpoint": True,
    "enable_linear_replayssm": True,
    "enable_linear_replayssm_spec": True,
    "enable_page_major_kv_layout": True,
    "mamba_ssm_dtype": "float16",
    "speculative_algorithm": "EAGLE3",
    "disaggregation_mode": "prefill",
    "skip_tokenizer_init": True,
    "json_model_override_args": '{"rope_theta": 1}',
}


def test_every_rule_has_its_case():
    assert set(BAD) == {rule.argument for rule in RULES}


@pytest.mark.parametrize("argument", sorted(BAD))
def test_an_unserved_argument_is_named_with_a_remedy(argument):
    [line] = refusals(SimpleNamespace(**{**vars(FINE), argument: BAD[argument]}))
    assert argument.replace("_", "-") in line
    assert "not served with memory; " in line


def test_all_refusals_come_at_once():
    assert len(refusals(SimpleNamespace(**BAD))) == len(BAD)
    assert refusals(FINE) == []


def test_ranks_without_a_part_of_their_own_are_refused():
    geometry, options = geometry_of(tiny_checkpoint("llama")), tiny_options()
    assert refused_ranks(None, geometry, options) == refused_ranks(1, replace(geometry, num_heads=3), options) == []
    assert refused_ranks(2, geometry, options) == refused_ranks(4, geometry, options) == []
    [uneven] = refused_ranks(3, geometry, options)
    assert uneven.startswith("--tp-size 3: 4 heads and 2 KV heads")
    hybrid = geometry_of(tiny_checkpoint("qwen3_5"))
    [placed, kept] = refused_ranks(2, hybrid, tiny_options(reinstate="kv", engram_rank=1))
    assert "`reinstate: kv`" in placed
    assert "`engram_rank: 1`" in kept
    for way in ("reread", "auto"):
        assert refused_ranks(2, hybrid, tiny_options(reinstate=way, engram_rank=0)) == []


@pytest.mark.parametrize("name", BACKENDS.values())
def test_what_the_engine_chose_by_itself_is_checked(name):
    served = type(name, (), {})()
    between = SimpleNamespace(full_attn_backend=served)
    pool, small_pool = SimpleNamespace(dtype=torch.bfloat16), SimpleNamespace(dtype=torch.float8_e4m3fn)
    assert refused_engine(served, pool) == refused_engine(between, pool) == refused_engine(served, small_pool) == []
    assert refused_engine(served, pool, kv_scales={0.5}) == refused_engine(served, small_pool, kv_scales={1.0}) == []
    [scaled] = refused_engine(served, small_pool, kv_scales={1.0, 0.25})
    assert "0.25" in scaled
    assert "--kv-cache-dtype bf16" in scaled
    assert "uint8" in refused_engine(served, SimpleNamespace(dtype=torch.uint8))[0]
    assert "object" in refused_engine(SimpleNamespace(full_attn_backend=object()), pool)[0]
    sliding = SimpleNamespace(dtype=torch.bfloat16, full_to_swa_index_mapping=None)
    assert "--disable-hybrid-swa-memory" in refused_engine(served, sliding)[0]
    [sparse] = refused_engine(type(SPARSE, (), {})(), pool)
    assert "Transformers only" in sparse
    with_sinks = refused_engine(served, pool, sinks=True)
    assert [name in line for line in with_sinks] == ([True] if name == BACKENDS["torch_native"] else [])


def test_the_installed_sglang_fits_every_seam():
    assert symbols.problems() == []


def test_one_of_several_names_is_enough():
    gone = replace(symbols.RELEASE_KV, target=symbols.RELEASE_KV.target + "_gone")
    assert symbols.problems([symbols.Called(names=(gone, symbols.RELEASE_KV))]) == []
    [line] = symbols.problems([symbols.Called(names=(gone, gone))])
    assert line.count("_gone") == 2 * str(symbols.problems([gone])).count("_gone")


def test_a_seam_that_is_gone_or_changed_is_reported():
    seam = symbols.RELEASE_KV
    gone = replace(seam, target=seam.target + "_gone")
    changed = replace(seam, parameters=("req", "nothing_of_that_name"))
    lost, other = symbols.problems((gone, changed))
    assert gone.target in lost
    assert seam.why in lost
    assert "nothing_of_that_name" in other


def test_every_seam_has_a_hook():
    from v14.engines.sglang.hooks import TABLE

    assert {seam.target for seam, _, _ in TABLE} == {seam.target for seam in symbols.SEAMS}


def test_where_no_backend_is_named_a_served_one_is_chosen(tmp_path, monkeypatch):
    from v14.engines.sglang.hooks import backend

    (tmp_path / "v14").mkdir()
    (tmp_path / "v14/profile.json").write_text("{}")
    args, plain = SimpleNamespace(model_path=str(tmp_path)), SimpleNamespace(model_path="elsewhere")
    model, sinks = SimpleNamespace(has_attention_sinks=False), SimpleNamespace(has_attention_sinks=True)
    for installed, expected in ((True, "flashinfer"), (False, "triton")):
        monkeypatch.setattr(backend.importlib.util, "find_spec", lambda name, there=installed: there or None)
        assert backend.choose_served("fa3", args, False, model) == expected
        assert backend.choose_served("trtllm_mha", args, use_mla_backend=False, model_config=sinks) == "triton"
    assert backend.choose_served("torch_native", args, False, model) == "torch_native"
    assert backend.choose_served("fa3", plain, False, model) == "fa3"
    monkeypatch.setenv("SGLANG_V14_MEMORY", "0")
    assert backend.choose_served("fa3", args, False, model) == "fa3"


def test_what_sglang_asks_for_its_default_backend_is_what_is_hooked(monkeypatch):
    from sglang.srt.arg_groups import overrides

    owner, _, name = symbols.present(symbols.DEFAULT_BACKEND).target.rpartition(".")
    monkeypatch.setattr(pkgutil.resolve_name(owner), name, lambda *args, **kwargs: "hooked")
    monkeypatch.setattr(overrides, "use_mla_backend", lambda view: False, raising=False)
    monkeypatch.setattr(overrides, "model_config_of", lambda view: None, raising=False)
    view = SimpleNamespace(
        attention_backend=None,
        prefill_attention_backend=None,
        _get_default_attn_backend=lambda *args: pkgutil.resolve_name(f"{owner}.{name}")(*args),
        use_mla_backend=lambda: False,
        get_model_config=lambda: None,
    )
    assert overrides._attention_backend_default(view) == {"attention_backend": "hooked"}


def test_architectures_and_directories(tmp_path):
    from v14.engines.sglang.hooks.architecture import serve_native

    class Config(SimpleNamespace):
        def update(self, values):
            assert self.architectures != values["architectures"]
            vars(self).update(values)

    for name in ("LlamaV14ForCausalLM", "LlamaForCausalLM"):
        assert serve_native(Config(architectures=[name])).architectures == ["LlamaForCausalLM"]
    assert serve_native(Config(architectures=None)).architectures is None
    assert not is_v14_directory(str(tmp_path))
    assert not is_v14_directory(None)
    (tmp_path / "v14").mkdir()
    (tmp_path / "v14/profile.json").write_text("{}")
    assert is_v14_directory(str(tmp_path))
