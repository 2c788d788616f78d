"""Server arguments that the memory does not serve: a table of rules, all reported at once."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`serves` says whether a value can be served; `remedy` what to do when it cannot."""

    argument: str
    serves: Callable[[Any], bool]
    remedy: str


BACKENDS = {
    "flashinfer": "FlashInferAttnBackend",
    "triton": "TritonAttnBackend",
    "torch_native": "TorchNativeAttnBackend",
}
"""Attention backends that the law of exactness was run on, and their classes."""

WITHOUT_SINKS = "TorchNativeAttnBackend"
"""SGLang's backend of a plain CPU takes no sinks, and ends at the first request of a model that has some."""

SPECULATIVE = ("NGRAM",)
"""Drafting that was run with memory."""

SPARSE = "QwenSparseAttnBackend"
"""The only backend that SGLang has for Qwen4-Exp."""


def _one(value: Any) -> bool:
    return value in (None, 1)


def _unset(value: Any) -> bool:
    return not value


def _null_mode(value: Any) -> bool:
    return value in (None, "null")


def _not_full(value: Any) -> bool:
    return value != "full"


def _plain_kv(value: Any) -> bool:
    return value in (None, "auto", "bf16", "bfloat16", "float16", "fp16", "float32", "fp8_e4m3", "fp8_e5m2")


def _wide_state(value: Any) -> bool:
    return value in (None, "float32", "bfloat16")


RULES: tuple[Rule, ...] = (
    Rule(argument="pp_size", serves=_one, remedy="serve with --pp-size 1"),
    Rule(argument="dp_size", serves=_one, remedy="serve with --dp-size 1"),
    Rule(argument="nnodes", serves=_one, remedy="serve with --nnodes 1"),
    Rule(
        argument="attn_cp_size",
        serves=_one,
        remedy="serve with --attn-cp-size 1: ranks would have a part of the tokens",
    ),
    Rule(argument="dcp_size", serves=_one, remedy="serve with --dcp-size 1: ranks would have a part of the tokens"),
    Rule(argument="dwdp_size", serves=_one, remedy="serve with --dwdp-size 1"),
    Rule(argument="enable_kv_cache_sharding", serves=_unset, remedy="leave out --enable-kv-cache-sharding"),
    Rule(argument="tokenizer_worker_num", serves=_one, remedy="serve with --tokenizer-worker-num 1"),
    Rule(argument="page_size", serves=_one, remedy="serve with --page-size 1"),
    Rule(
        argument="attention_backend",
        serves=lambda value: value is None or value in BACKENDS,
        remedy="serve with --attention-backend flashinfer or triton",
    ),
    Rule(argument="prefill_attention_backend", serves=_unset, remedy="serve with --attention-backend alone"),
    Rule(argument="decode_attention_backend", serves=_unset, remedy="serve with --attention-backend alone"),
    Rule(
        argument="cuda_graph_backend_prefill",
        serves=_not_full,
        remedy="leave it out: a graph of the whole prefill hides the queries of a prompt",
    ),
    Rule(argument="kv_cache_dtype", serves=_plain_kv, remedy="serve with --kv-cache-dtype auto or fp8_e4m3"),
    Rule(argument="disable_radix_cache", serves=_unset, remedy="leave out --disable-radix-cache: spans stand in it"),
    Rule(argument="enable_hierarchical_cache", serves=_unset, remedy="leave out --enable-hierarchical-cache"),
    Rule(argument="enable_unified_memory", serves=_unset, remedy="leave out --enable-unified-memory"),
    Rule(argument="enable_mixed_chunk", serves=_unset, remedy="leave out --enable-mixed-chunk"),
    Rule(argument="enable_lora", serves=_unset, remedy="leave out --enable-lora: an adapter's KV is another model's"),
    Rule(argument="lora_paths", serves=_unset, remedy="leave out --lora-paths: an adapter's KV is another model's"),
    Rule(argument="radix_cache_backend", serves=_unset, remedy="leave out --radix-cache-backend"),
    Rule(argument="enable_session_radix_cache", serves=_unset, remedy="leave out --enable-session-radix-cache"),
    Rule(argument="enable_lmcache", serves=_unset, remedy="leave out --enable-lmcache"),
    Rule(argument="enable_flexkv", serves=_unset, remedy="leave out --enable-flexkv"),
    Rule(argument="enable_hisparse", serves=_unset, remedy="leave out --enable-hisparse"),
    Rule(argument="enable_dp_attention", serves=_unset, remedy="leave out --enable-dp-attention"),
    Rule(argument="enable_two_batch_overlap", serves=_unset, remedy="leave out --enable-two-batch-overlap"),
    Rule(argument="enable_pdmux", serves=_unset, remedy="leave out --enable-pdmux"),
    Rule(argument="dllm_algorithm", serves=_unset, remedy="leave out --dllm-algorithm"),
    Rule(
        argument="mamba_radix_cache_strategy",
        serves=lambda value: value in (None, "auto", "no_buffer", "extra_buffer"),
        remedy="serve with --mamba-radix-cache-strategy no_buffer or extra_buffer",
    ),
    Rule(argument="enable_int8_mamba_checkpoint", serves=_unset, remedy="leave out --enable-int8-mamba-checkpoint"),
    Rule(argument="enable_linear_replayssm", serves=_unset, remedy="leave out --enable-linear-replayssm"),
    Rule(argument="enable_linear_replayssm_spec", serves=_unset, remedy="leave out --enable-linear-replayssm-spec"),
    Rule(argument="enable_page_major_kv_layout", serves=_unset, remedy="leave out --enable-page-major-kv-layout"),
    Rule(argument="mamba_ssm_dtype", serves=_wide_state, remedy="serve with --mamba-ssm-dtype float32 or bfloat16"),
    Rule(
        argument="speculative_algorithm",
        serves=lambda value: value in (None, *SPECULATIVE),
        remedy="serve with --speculative-algorithm NGRAM or without",
    ),
    Rule(argument="disaggregation_mode", serves=_null_mode, remedy="leave out --disaggregation-mode"),
    Rule(argument="skip_tokenizer_init", serves=_unset, remedy="leave out --skip-tokenizer-init"),
    Rule(
        argument="json_model_override_args",
        serves=lambda value: value in (None, "", "{}"),
        remedy="leave out --json-model-override-args and upgrade a checkpoint whose config.json has the change",
    ),
)


def refusals(server_args: Any) -> list[str]:
    """One line for every argument that the memory does not serve; empty when all are fine."""
    lines = []
    for rule in RULES:
        value = getattr(server_args, rule.argument, None)
        if not rule.serves(value):
            lines.append(f"--{rule.argument.replace('_', '-')} {value}: not served with memory; {rule.remedy}")
    return lines


def refused_engine(
    attention: Any, kv_pool: Any, *, sinks: bool = False, kv_scales: Collection[float] = ()
) -> list[str]:
    """What the engine chose by itself and the memory does not serve: attention backend (with `sinks`, one for models
    that have attention sinks), sliding layers' KV, dtype of the KV pool, and what its keys and values are divided by
    (`kv_scales`)."""
    lines = []
    name = type(getattr(attention, "full_attn_backend", attention)).__name__
    if name == SPARSE:
        lines.append(
            f"attention by {name}: an index chooses its keys, which the memory serves in Transformers only; "
            "no other backend of SGLang has it"
        )
    elif name not in BACKENDS.values():
        lines.append(
            f"attention by {name}: not served with memory; serve with --attention-backend flashinfer or triton"
        )
    if sinks and name == WITHOUT_SINKS:
        lines.append(
            f"attention sinks by {name}: SGLang has none there, with memory or without; "
            "serve on a GPU with --attention-backend triton"
        )
    if hasattr(kv_pool, "full_to_swa_index_mapping"):
        lines.append(
            "a KV pool of their own for sliding layers: not served with memory; serve with --disable-hybrid-swa-memory"
        )
    if kv_pool.dtype.itemsize < 2:
        if not kv_pool.dtype.is_floating_point:
            lines.append(f"KV in {kv_pool.dtype}: not served with memory; serve with --kv-cache-dtype fp8_e4m3 or bf16")
        scales = sorted(set(kv_scales) - {1.0})
        if scales:
            lines.append(
                f"KV divided by scales of the checkpoint ({scales[0]:g} to {scales[-1]:g}): not served with memory; "
                "serve with --kv-cache-dtype bf16"
            )
    return lines
