"""The functions that SGLang calls. `TABLE` pairs every seam with its hook: hooks are data.

BEFORE hooks may replace the arguments, AFTER hooks the result, AROUND hooks wrap the call. Each one wraps those that
stand above it, so that of two BEFORE hooks of a seam the lower one runs first. Each is quick to return
when its process serves no V14 directory.
"""

from collections.abc import Callable
from typing import Any

from v14.engines.sglang import seams
from v14.engines.sglang.hooks import (
    architecture,
    control,
    cost,
    decoding,
    front,
    observe,
    pace,
    probe,
    requests,
    routes,
    span,
    start,
    states,
    stop,
)

TABLE: tuple[tuple[seams.Seam, str, Callable[..., Any]], ...] = (
    (seams.PARSE_CONFIG, "after", architecture.serve_native),
    (seams.CHECK_SERVER_ARGS, "after", start.refuse_unserved),
    (seams.SCHEDULER_INIT, "after", start.open_memory),
    (seams.RUN_HTTP_SERVER, "before", routes.add_routes),
    (seams.CONVERT_CHAT, "after", front.keep_user),
    (seams.CONVERT_COMPLETION, "after", front.keep_user),
    (seams.GENERATE_REQUEST, "around", front.generate_with_memory),
    (seams.BUILD_CHAT_RESPONSE, "after", front.report_in_reply),
    (seams.BUILD_COMPLETION_RESPONSE, "after", front.report_in_reply),
    (seams.INTERNAL_STATE, "around", control.answer_order),
    (seams.HANDLE_REQUEST, "before", requests.arrive),
    (seams.ENQUEUE, "before", requests.attach),
    (seams.MAX_PREFIX, "after", probe.compute_cue_tokens),
    (seams.UPDATE_FINISH, "before", pace.note_token),
    (seams.UPDATE_FINISH, "before", probe.decide),
    (seams.UPDATE_FINISH, "after", decoding.look),
    (seams.UPDATE_RUNNING, "before", decoding.read_again),
    (seams.FORWARD, "around", probe.watch_forward),
    (seams.ATTENTION, "before", probe.keep_queries),
    (seams.HYBRID_ATTENTION, "before", probe.keep_queries),
    (seams.ATTENTION, "after", stop.stop_behind_voters),
    (seams.HYBRID_ATTENTION, "after", stop.stop_behind_voters),
    (seams.NEXT_BATCH, "before", stop.process_at_once),
    (seams.NEXT_ROUND, "before", states.begin),
    (seams.NEXT_ROUND, "before", span.place_before_match),
    (seams.MAX_PREFIX, "after", states.compute_event_tokens),
    (seams.FORWARD, "before", states.watch_forward),
    (seams.FORWARD, "before", cost.begin_pass),
    (seams.FORWARD, "after", cost.end_pass),
    (seams.READ_GATED_DELTA, "before", states.read_gated_delta),
    (seams.READ_MAMBA2, "before", states.read_mamba2),
    (seams.READ_SHORT_CONV, "before", states.read_short_conv),
    (seams.READ_SHORT_CONV_MOE, "before", states.read_short_conv),
    (seams.RELEASE_KV, "before", states.keep_head),
    (seams.RELEASE_KV, "before", observe.store_finished),
    (seams.RELEASE_KV, "before", stop.release_unread),
    (seams.RELEASE_KV, "before", pace.note_end),
    (seams.RELEASE_KV, "after", probe.read_again),
)
