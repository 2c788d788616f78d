"""The functions that SGLang calls. `TABLE` pairs every seam with its hook: hooks are data.

BEFORE hooks may replace the arguments, AFTER hooks the result, AROUND hooks wrap the call. Each one wraps those that
stand above it, so that of two BEFORE hooks of a seam the lower one runs first. Each is quick to return
when its process serves no V14 directory.
"""

from collections.abc import Callable
from typing import Any

from v14.engines.sglang import symbols
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

TABLE: tuple[tuple[symbols.Seam, str, Callable[..., Any]], ...] = (
    (symbols.PARSE_CONFIG, "after", architecture.serve_native),
    (symbols.CHECK_SERVER_ARGS, "after", start.refuse_unserved),
    (symbols.SCHEDULER_INIT, "after", start.open_memory),
    (symbols.RUN_HTTP_SERVER, "before", routes.add_routes),
    (symbols.CONVERT_CHAT, "after", front.keep_user),
    (symbols.CONVERT_COMPLETION, "after", front.keep_user),
    (symbols.GENERATE_REQUEST, "around", front.generate_with_memory),
    (symbols.BUILD_CHAT_RESPONSE, "after", front.report_in_reply),
    (symbols.BUILD_COMPLETION_RESPONSE, "after", front.report_in_reply),
    (symbols.INTERNAL_STATE, "around", control.answer_order),
    (symbols.HANDLE_REQUEST, "before", requests.arrive),
    (symbols.ENQUEUE, "before", requests.attach),
    (symbols.MAX_PREFIX, "after", probe.compute_cue_tokens),
    (symbols.UPDATE_FINISH, "before", pace.note_token),
    (symbols.UPDATE_FINISH, "before", probe.decide),
    (symbols.UPDATE_FINISH, "after", decoding.look),
    (symbols.UPDATE_RUNNING, "before", decoding.read_again),
    (symbols.FORWARD, "around", probe.watch_forward),
    (symbols.ATTENTION, "before", probe.keep_queries),
    (symbols.HYBRID_ATTENTION, "before", probe.keep_queries),
    (symbols.ATTENTION, "after", stop.stop_behind_voters),
    (symbols.HYBRID_ATTENTION, "after", stop.stop_behind_voters),
    (symbols.NEXT_BATCH, "before", stop.process_at_once),
    (symbols.NEXT_ROUND, "before", states.begin),
    (symbols.NEXT_ROUND, "before", span.place_before_match),
    (symbols.MAX_PREFIX, "after", states.compute_event_tokens),
    (symbols.FORWARD, "before", states.watch_forward),
    (symbols.FORWARD, "before", cost.begin_pass),
    (symbols.FORWARD, "after", cost.end_pass),
    (symbols.READ_GATED_DELTA, "before", states.read_gated_delta),
    (symbols.READ_MAMBA2, "before", states.read_mamba2),
    (symbols.READ_SHORT_CONV, "before", states.read_short_conv),
    (symbols.READ_SHORT_CONV_MOE, "before", states.read_short_conv),
    (symbols.RELEASE_KV, "before", states.keep_head),
    (symbols.RELEASE_KV, "before", observe.store_finished),
    (symbols.RELEASE_KV, "before", stop.release_unread),
    (symbols.RELEASE_KV, "before", pace.note_end),
    (symbols.RELEASE_KV, "after", probe.read_again),
)
