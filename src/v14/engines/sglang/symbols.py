"""Every symbol of SGLang that the plugin touches, checked before anything is hooked.

`SEAMS` are hooked, `CALLED` are only used. `parameters` are the names that the plugin relies on, in any order. A symbol
that is gone or has other parameters is reported by name, with the versions that are known to work.
"""

import inspect
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass

TESTED_VERSIONS = "0.5.17 and 0.5.23"


@dataclass(frozen=True, kw_only=True)
class Seam:
    """A function or class of SGLang. `why` says what the memory loses without it."""

    target: str
    parameters: tuple[str, ...]
    why: str


@dataclass(frozen=True, kw_only=True)
class Called:
    """A function or class of SGLang that is used under one of several names: the first that exists has to fit."""

    names: tuple[Seam, ...]


PARSE_CONFIG = Seam(
    target="sglang.srt.utils.hf_transformers.config.HfModelConfigParser.parse",
    parameters=("self", "model", "trust_remote_code"),
    why="serving a V14 architecture with the native model",
)
CHECK_SERVER_ARGS = Seam(
    target="sglang.srt.server_args.ServerArgs.check_server_args",
    parameters=("self",),
    why="refusing server arguments before anything starts",
)
RUN_HTTP_SERVER = Seam(
    target="sglang.srt.entrypoints.http_server._setup_and_run_http_server",
    parameters=("server_args", "tokenizer_manager"),
    why="refusing requests without a namespace at the door",
)
CONVERT_CHAT = Seam(
    target="sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._convert_to_internal_request",
    parameters=("self", "request", "raw_request"),
    why="taking the namespace from the `user` field of a chat request",
)
CONVERT_COMPLETION = Seam(
    target="sglang.srt.entrypoints.openai.serving_completions.OpenAIServingCompletion._convert_to_internal_request",
    parameters=("self", "request", "raw_request"),
    why="taking the namespace from the `user` field of a completion request",
)
BUILD_CHAT_RESPONSE = Seam(
    target="sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._build_chat_response",
    parameters=("self", "request", "ret", "created"),
    why="reporting in a chat reply what was recalled",
)
BUILD_COMPLETION_RESPONSE = Seam(
    target="sglang.srt.entrypoints.openai.serving_completions.OpenAIServingCompletion._build_completion_response",
    parameters=("self", "request", "ret", "created"),
    why="reporting in a completion reply what was recalled",
)
GENERATE_REQUEST = Seam(
    target="sglang.srt.managers.tokenizer_manager.TokenizerManager.generate_request",
    parameters=("self", "obj", "request"),
    why="telling the scheduler whose memory a request has, and the client what was recalled",
)
SCHEDULER_INIT = Seam(
    target="sglang.srt.managers.scheduler.Scheduler.__init__",
    parameters=("self", "server_args"),
    why="opening the memory beside the engine's pools",
)
INTERNAL_STATE = Seam(
    target="sglang.srt.managers.scheduler.Scheduler.get_internal_state",
    parameters=("self", "recv_req"),
    why="listing and forgetting what is stored",
)
HANDLE_REQUEST = Seam(
    target="sglang.srt.managers.scheduler.Scheduler.handle_generate_request",
    parameters=("self", "recv_req"),
    why="putting recalled tokens into a request's sequence",
)
ENQUEUE = Seam(
    target="sglang.srt.managers.scheduler.Scheduler._add_request_to_queue",
    parameters=("self", "req", "is_retracted"),
    why="attaching the memory's record to the engine's request",
)
NEXT_BATCH = Seam(
    target="sglang.srt.managers.scheduler.Scheduler.get_next_batch_to_run",
    parameters=("self", "running_batch", "last_batch"),
    why="not decoding with requests that are read again",
)
NEXT_ROUND = Seam(
    target="sglang.srt.managers.schedule_batch.Req.init_next_round_input",
    parameters=("self", "tree_cache", "cow_mamba"),
    why="placing a span in the prefix cache before the request is matched",
)
MAX_PREFIX = Seam(
    target="sglang.srt.managers.schedule_batch.Req._compute_max_prefix_len",
    parameters=("self", "input_len"),
    why="computing the queries of a cue whose prompt is cached",
)
UPDATE_FINISH = Seam(
    target="sglang.srt.managers.schedule_batch.Req.update_finish_state",
    parameters=("self", "new_accepted_len"),
    why="making a plan when a prompt has been read",
)
UPDATE_RUNNING = Seam(
    target="sglang.srt.managers.scheduler.Scheduler.update_running_batch",
    parameters=("self", "batch"),
    why="reading a request again behind what it recalled while it decodes",
)
FORWARD = Seam(
    target="sglang.srt.model_executor.model_runner.ModelRunner.forward",
    parameters=("self", "forward_batch"),
    why="knowing which requests a forward pass reads",
)
ATTENTION = Seam(
    target="sglang.srt.layers.attention.base_attn_backend.AttentionBackend.forward",
    parameters=("self", "q", "k", "v", "layer", "forward_batch"),
    why="reading the cue's queries",
)
HYBRID_ATTENTION = Seam(
    target="sglang.srt.layers.attention.hybrid_linear_attn_backend.HybridLinearAttnBackend.forward",
    parameters=("self", "q", "k", "v", "layer", "forward_batch"),
    why="reading the cue's queries between recurrent layers",
)
READ_GATED_DELTA = Seam(
    target="sglang.srt.layers.attention.linear.gdn_backend.GDNAttnBackend.forward_extend",
    parameters=("self", "layer", "forward_batch", "mixed_qkv", "a", "b"),
    why="noting what Gated DeltaNet layers do to their states",
)
READ_MAMBA2 = Seam(
    target="sglang.srt.layers.attention.hybrid_linear_attn_backend.Mamba2AttnBackend.forward",
    parameters=("self", "mixer", "hidden_states", "output", "layer_id"),
    why="noting what Mamba2 layers do to their states",
)
READ_SHORT_CONV = Seam(
    target="sglang.srt.models.lfm2.Lfm2ShortConv.forward",
    parameters=("self", "hidden_states"),
    why="noting what short convolutions read",
)
READ_SHORT_CONV_MOE = Seam(
    target="sglang.srt.models.lfm2_moe.Lfm2MoeShortConv.forward",
    parameters=("self", "hidden_states"),
    why="noting what short convolutions read",
)
RELEASE_KV = Seam(
    target="sglang.srt.mem_cache.common.release_kv_cache",
    parameters=("req", "tree_cache"),
    why="storing what a finished request has read and written, and reading a request again behind its span",
)

SEAMS: tuple[Seam, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Seam))

DEFAULT_BACKEND: tuple[Seam, ...] = tuple(
    Seam(
        target=f"sglang.srt.{target}",
        parameters=("use_mla_backend", "model_config"),
        why="serving with an attention backend that memory works with where none is named",
    )
    for target in (
        "server_args.ServerArgs._get_default_attn_backend",
        "arg_groups.overrides.get_default_attn_backend",
    )
)
"""Hooked where a version has it: 0.5.17 the first, 0.5.23 the second."""

_TREE = "sglang.srt.mem_cache."
_PASS = "sglang.srt.model_executor.runner_backend_utils."
CALLED: tuple[Called, ...] = (
    Called(names=DEFAULT_BACKEND),
    *(
        Called(names=(Seam(target=f"sglang.srt.managers.{target}", parameters=parameters, why=why),))
        for target, parameters, why in (
            ("io_struct.GetInternalStateReq", ("rid",), "asking the scheduler what is stored"),
            ("io_struct.GetInternalStateReqOutput", ("internal_state",), "answering what is stored"),
            ("io_struct.AbortReq", ("rid",), "ending requests that hold what is forgotten"),
            ("scheduler.Scheduler.abort_request", ("self", "recv_req"), "ending requests that hold what is forgotten"),
            ("scheduler.Scheduler.is_fully_idle", ("self",), "letting go of the last batch"),
        )
    ),
    Called(
        names=tuple(
            Seam(
                target=f"sglang.srt.managers.schedule_batch.Req.{name}", parameters=("self",), why="the length to store"
            )
            for name in ("owned_kv_len", "effective_kv_committed_len")
        )
    ),
    *(
        Called(
            names=(Seam(target=f"sglang.srt.{target}", parameters=parameters, why="looking for what a reply recalls"),)
        )
        for target, parameters in (
            ("sampling.sampling_params.SamplingParams", ("max_new_tokens", "temperature")),
            ("sampling.sampling_params.SamplingParams.normalize", ("self", "tokenizer")),
            ("managers.schedule_batch.ScheduleBatch.release_req", ("self", "idx", "remaing_req_count")),
            ("managers.schedule_batch.ScheduleBatch.filter_batch", ("self", "keep_indices")),
            ("managers.schedule_batch.Req.reset_for_retract", ("self",)),
        )
    ),
    *(
        Called(names=(Seam(target=target, parameters=parameters, why="leaving a pass that is read again"),))
        for target, parameters in (
            (f"{_PASS}breakable_cuda_graph.context.is_in_breakable_cuda_graph", ()),
            (f"{_PASS}tc_piecewise_cuda_graph.context_manager.is_in_tc_piecewise_cuda_graph", ()),
            ("sglang.srt.layers.logits_processor.LogitsProcessorOutput", ("next_token_logits",)),
            ("sglang.srt.model_executor.model_runner.ModelRunnerOutput", ("logits_output", "can_run_graph")),
        )
    ),
    Called(
        names=(
            Seam(
                target="sglang.srt.managers.schedule_batch.FINISH_LENGTH",
                parameters=("length",),
                why="ending a request that is read again",
            ),
        )
    ),
    *(
        Called(names=(Seam(target=_TREE + target, parameters=parameters, why="placing a span in the prefix cache"),))
        for target, parameters in (
            ("radix_cache.RadixKey", ("token_ids", "extra_key")),
            ("base_prefix_cache.MatchPrefixParams", ("key",)),
            ("base_prefix_cache.InsertParams", ("key", "value", "mamba_value", "prev_prefix_len")),
            ("base_prefix_cache.BasePrefixCache.inc_lock_ref", ("self", "node")),
            ("base_prefix_cache.BasePrefixCache.dec_lock_ref", ("self", "node", "params")),
            ("base_prefix_cache.EvictParams", ("num_tokens", "mamba_num")),
            ("base_prefix_cache.BasePrefixCache.evict", ("self", "params")),
            ("common.evict_from_tree_cache", ("tree_cache", "num_tokens")),
            (
                "unified_cache.unified_tree_core_interface.UnifiedTreeCoreInterface.get_component_device_value",
                ("self", "node_id"),
            ),
        )
    ),
)


def problems(seams: Iterable[Seam | Called] = (*SEAMS, *CALLED)) -> list[str]:
    """What is wrong with the installed SGLang, one line per seam; empty when everything fits."""
    found = []
    for seam in seams:
        names = seam.names if isinstance(seam, Called) else (seam,)
        wrong = [line for line in map(_problem, names) if line]
        if len(wrong) == len(names):
            found.append("; or ".join(wrong))
    return found


def present(names: Iterable[Seam]) -> Seam:
    """The one of several names that the installed SGLang has; one of them fits (`problems`)."""
    return next(seam for seam in names if not _problem(seam))


def _problem(seam: Seam) -> str:
    try:
        parameters = inspect.signature(pkgutil.resolve_name(seam.target)).parameters
    except (AttributeError, ImportError, ValueError) as error:
        return f"{seam.target} cannot be used ({error}): {seam.why}"
    missing = [name for name in seam.parameters if name not in parameters]
    return f"{seam.target} has no parameter {', '.join(missing)}: {seam.why}" if missing else ""
