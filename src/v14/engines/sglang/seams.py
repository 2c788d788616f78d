"""Looks into SGLang's own objects: the only place that knows one served version from another.

The symbols themselves stand in `symbols.py`.
"""

import copy
import inspect
from typing import Any

import torch

from v14.engines.sglang.ticket import KEY


def ranks_group(scheduler: Any) -> Any:
    """The group of the CPU processes that serve one model; None where there is one."""
    return scheduler.tp_cpu_group if scheduler.server_args.tp_size > 1 else None


def metrics_enabled(server_args: Any) -> bool:
    """Whether SGLang serves `/metrics`."""
    return bool(server_args.enable_metrics)


def served_name(server_args: Any) -> str:
    """What SGLang's own metrics call the model."""
    return str(server_args.served_model_name or server_args.model_path)


def kv_scales(model: Any) -> set[float]:
    """What a model's attention layers divide keys and values by before they are rounded to a narrow pool."""
    names = ("k_scale_float", "v_scale_float")
    scales = {getattr(module, name, None) for module in model.modules() for name in names}
    return {float(scale) for scale in scales if scale is not None}


def room_tokens(tokenizer_manager: Any) -> int:
    """How many tokens a prompt may have that is answered with one."""
    limit = getattr(tokenizer_manager, "max_req_input_len", None) or tokenizer_manager.context_len
    return int(limit) - 1


def kv_row(req: Any) -> int | None:
    """The row of `req_to_token` that holds a request's KV slots; None while it holds none."""
    row = req.kv.req_pool_idx if hasattr(req.kv, "req_pool_idx") else req.req_pool_idx
    return None if row is None else int(row)


def owned_length(req: Any) -> int:
    """Tokens of a request whose KV is computed and its own."""
    length = req.owned_kv_len() if hasattr(req, "owned_kv_len") else req.effective_kv_committed_len()
    return int(length)


def copied(recv_req: Any) -> Any:
    """A request that arrives, as it is now: SGLang writes into its parameters and times while it serves it.

    The copy carries no ticket: it enters the scheduler with its reading made.
    """
    again = copy.copy(recv_req)
    again.sampling_params = copy.copy(recv_req.sampling_params)
    params = {key: value for key, value in recv_req.sampling_params.custom_params.items() if key != KEY}
    again.sampling_params.custom_params = params or None
    again.time_stats = copy.copy(recv_req.time_stats)
    return again


def end_unheard(req: Any) -> None:
    """End a request with its first token, of which nobody is told."""
    from sglang.srt.managers.schedule_batch import FINISH_LENGTH

    req.to_finish = FINISH_LENGTH(length=len(req.output_ids))
    req.finished_output = True


def look(arrived: Any, rid: str) -> Any:
    """A request like one that arrived, under another id and for one token: nothing else is wanted of it.

    Its token ids are set by the caller.
    """
    again = copy.copy(arrived)
    again.rid, again.input_text = rid, ""
    again.sampling_params = type(arrived.sampling_params)(max_new_tokens=1, temperature=0.0)
    again.sampling_params.normalize(None)
    again.stream = again.return_logprob = again.return_hidden_states = False
    again.logprob_start_len, again.top_logprobs_num, again.token_ids_logprob = -1, 0, None
    again.custom_logit_processor = None
    again.time_stats = copy.copy(arrived.time_stats)
    return again


def release_arguments(scheduler: Any, batch: Any) -> dict[str, Any]:
    """What `ScheduleBatch.release_req` takes beside a request's place and how many stay."""
    takes_server_args = "server_args" in inspect.signature(batch.release_req).parameters
    return {"server_args": scheduler.server_args} if takes_server_args else {}


def take_last_result(scheduler: Any) -> tuple[Any, Any] | None:
    """The last pass and its result, if overlap scheduling has it still to be processed: the caller does that."""
    queue = getattr(scheduler, "result_queue", None)
    if not queue or not scheduler.last_batch:
        return None
    scheduler.last_batch = None
    batch, result = queue.popleft()
    return batch, result


def kept_from_cache(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments with which a request's slots are given back when nothing of them may go into the prefix cache."""
    return {**kwargs, "checkpoint" if "checkpoint" in kwargs else "is_insert": False}


def reads_prompts(runner: Any, batch: Any) -> bool:
    """Whether a pass is one of the served model over prompts. A draft model's layers bear the same numbers."""
    return not runner.is_draft_worker and bool(batch.forward_mode.is_extend_without_speculative())


def asks_for_more(batch: Any) -> bool:
    """Whether somebody wants more of a pass over prompts than its requests' next tokens."""
    return bool(batch.return_logprob or batch.capture_hidden_mode.need_capture() or batch.spec_info is not None)


def in_prefill_graph() -> bool:
    """Whether a pass over prompts is running in CUDA graphs, piece by piece."""
    from sglang.srt.model_executor.runner_backend_utils.breakable_cuda_graph.context import is_in_breakable_cuda_graph
    from sglang.srt.model_executor.runner_backend_utils.tc_piecewise_cuda_graph.context_manager import (
        is_in_tc_piecewise_cuda_graph,
    )

    return bool(is_in_breakable_cuda_graph() or is_in_tc_piecewise_cuda_graph())


def unheard(runner: Any, batch: Any, *, in_graphs: bool) -> Any:
    """The output of a pass that was left early: logits `[requests, vocabulary]` of zeros."""
    from sglang.srt.layers.logits_processor import LogitsProcessorOutput
    from sglang.srt.model_executor.model_runner import ModelRunnerOutput

    logits = torch.zeros(batch.batch_size, runner.model_config.vocab_size, device=batch.input_ids.device)
    return ModelRunnerOutput(logits_output=LogitsProcessorOutput(next_token_logits=logits), can_run_graph=in_graphs)


def cache_key(req: Any) -> dict[str, Any]:
    """What keeps a request's prefix cache apart from others', as fields of a `RadixKey` or a request."""
    return {name: getattr(req, name) for name in ("extra_key", "cache_salt") if hasattr(req, name)}


def matched_slots(tree_cache: Any, match: Any, extra_key: str | None) -> torch.Tensor:
    """KV slots `[n]` int64 of the tokens that a `MatchResult` found on the device."""
    if hasattr(match, "device_indices"):
        slots: torch.Tensor = match.device_indices
        return slots
    path = tree_cache.tree_core.collect_full_device_indices(
        match.last_device_node, tree_cache.root_node_handle(extra_key)
    )
    return path[: match.device_prefix_len]


def state_slot(tree_cache: Any, node: Any) -> torch.Tensor:
    """Slot `[1]` of the recurrent states that a matched node of the tree carries."""
    from sglang.srt.mem_cache.unified_cache.component_type import ComponentType

    slot: torch.Tensor = tree_cache.tree_core.get_component_device_value(node, ComponentType.MAMBA)
    return slot
