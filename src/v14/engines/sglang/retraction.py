"""A request that decodes leaves its batch, and comes back with another sequence in front of its reply.

SGLang retracts a request when there is no room: it gives its slots back, keeps its tokens, and is read again from the
queue. Here that is done to a request whose prompt has got longer; a token of its own that is on its way is dropped when
it comes, as with SGLang's.
"""

from array import array
from collections.abc import Collection, Sequence
from typing import Any

from v14.engines.sglang import seams


def may_be_retracted(req: Any) -> bool:
    """Whether a request that is decoding can be read again and go on as it would have: SGLang forgets, of what was
    written before, what these count or collect."""
    params = req.sampling_params
    return (
        params.frequency_penalty == params.presence_penalty == 0
        and params.repetition_penalty == 1
        and params.min_new_tokens == 0
        and not any(
            getattr(req, name, None)
            for name in (
                "custom_logit_processor",
                "return_hidden_states",
                "return_routed_experts",
                "return_indexer_topk",
                "return_sampling_mask",
                "input_embeds",
                "beam_group",
            )
        )
    )


def retract(scheduler: Any, batch: Any, places: Collection[int]) -> None:
    """Take requests out of a batch that decodes, and their slots from them, as SGLang does for want of room."""
    arguments = seams.release_arguments(scheduler, batch)
    for place in places:
        batch.release_req(place, 0, **arguments)
    batch.filter_batch(keep_indices=[place for place in range(len(batch.reqs)) if place not in places])
    batch.batch_is_full = False


def come_back(scheduler: Any, req: Any, token_ids: Sequence[int]) -> None:
    """Queue a request that was retracted in front of all that wait, `token_ids` standing in front of its reply."""
    if req.logprob_start_len > 0:
        req.logprob_start_len += len(token_ids) - len(req.origin_input_ids)
    req.origin_input_ids = array("q", token_ids)
    # SGLang tells by its length alone whether this has to be made again.
    req.full_untruncated_fill_ids = array("q")
    scheduler.waiting_queue.insert(0, req)
    req.time_stats.set_wait_queue_entry_time()
