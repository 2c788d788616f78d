"""Every symbol of SGLang that the plugin touches, checked before anything is hooked.

`parameters` are the names that a hook relies on, in any order. A symbol that is gone or has other parameters is
reported by name, with the versions that are known to work.
"""

import inspect
import pkgutil
from dataclasses import dataclass

TESTED_VERSIONS = "0.5.23"


@dataclass(frozen=True, kw_only=True)
class Seam:
    """A function of SGLang. `why` says what the memory loses without it."""

    target: str
    parameters: tuple[str, ...]
    why: str


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
    why="probing a prompt before it is served",
)
SCHEDULER_INIT = Seam(
    target="sglang.srt.managers.scheduler.Scheduler.__init__",
    parameters=("self", "server_args"),
    why="opening the memory beside the engine's pools",
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
NEXT_ROUND = Seam(
    target="sglang.srt.managers.schedule_batch.Req.init_next_round_input",
    parameters=("self", "tree_cache", "cow_mamba"),
    why="placing a span in the prefix cache before the request is matched",
)
MAX_PREFIX = Seam(
    target="sglang.srt.managers.schedule_batch.Req._compute_max_prefix_len",
    parameters=("self", "input_len"),
    why="making a probe compute the queries of its cue",
)
FORWARD = Seam(
    target="sglang.srt.model_executor.model_runner.ModelRunner.forward",
    parameters=("self", "forward_batch"),
    why="knowing which requests a forward pass reads",
)
EXTEND_TORCH_NATIVE = Seam(
    target="sglang.srt.layers.attention.torch_native_backend.TorchNativeAttnBackend.forward_extend",
    parameters=("self", "q", "k", "v", "layer", "forward_batch"),
    why="reading the cue's queries",
)
RELEASE_KV = Seam(
    target="sglang.srt.mem_cache.common.release_kv_cache",
    parameters=("req", "tree_cache", "checkpoint"),
    why="storing what a finished request has read and written",
)

SEAMS: tuple[Seam, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Seam))


def problems(seams: tuple[Seam, ...] = SEAMS) -> list[str]:
    """What is wrong with the installed SGLang, one line per seam; empty when everything fits."""
    found = []
    for seam in seams:
        try:
            parameters = inspect.signature(pkgutil.resolve_name(seam.target)).parameters
        except (AttributeError, ImportError, ValueError) as error:
            found.append(f"{seam.target} cannot be used ({error}): {seam.why}")
            continue
        missing = [name for name in seam.parameters if name not in parameters]
        if missing:
            found.append(f"{seam.target} has no parameter {', '.join(missing)}: {seam.why}")
    return found
