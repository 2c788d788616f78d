"""The HTTP process: whose memory a request has, and the probe that goes before it.

    client ──▶ front ──▶ probe ──▶ scheduler: votes, plan ──▶ front ──▶ request with placements ──▶ scheduler

A namespace in which nothing was ever written is not probed, so that an empty memory costs nothing and changes nothing.
"""

import logging
import re
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from v14.config import Mode
from v14.engines.sglang.holding import Holding
from v14.engines.sglang.ticket import KEY, Operation, Ticket, radix_key
from v14.errors import RefusedError
from v14.keys import MAX_NAMESPACE_CHARACTERS
from v14.namespaces import DEFAULT_NAMESPACE, Access, Namespaces
from v14.reinstate.transcripts import Placement

logger = logging.getLogger("v14")

MODE_HEADER = "x-v14-memory"
CHAT_HEADER = "x-v14-chat"
HEALTH_CHECK_RID = "HEALTH_CHECK"
OWN_REQUESTS = ("warm_up", "health_check")
"""Why the server's own requests are served without memory."""
USER_ATTRIBUTE = "v14_user"
"""Where the hook on the OpenAI routes leaves the `user` field for the front."""

Generate = Callable[..., AsyncIterator[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Admission:
    """What a request asks of the memory."""

    namespace: str
    mode: Mode
    shared: tuple[str, ...] = ()
    chat_id: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The namespaces that events may be recalled from."""
        return self.namespace, *self.shared


class Front:
    """The memory's side of one TokenizerManager.

    `holding` knows which namespaces are empty, `namespaces` whose memory a request has. `is_up` tells whether the
    server's own warm-up is over.
    """

    def __init__(self, holding: Holding, namespaces: Namespaces, is_up: Callable[[], bool]) -> None:
        self.counters: Counter[str] = Counter()
        self.holding = holding
        self.namespaces = namespaces
        self._is_up = is_up

    def admit(self, obj: Any, headers: Mapping[str, str]) -> Admission:
        """Namespace and mode of a request. Raises `ValueError`, which SGLang answers with 400."""
        reason = self._unserved(obj)
        access = self._access(obj, headers, reason)
        mode = headers.get(MODE_HEADER, "both").lower()
        if mode not in get_args(Mode):
            raise ValueError(f"{MODE_HEADER}: {mode!r} is none of {', '.join(get_args(Mode))}")
        if reason:
            self.counters[f"without_memory_{reason}"] += 1
            mode = "off"
        chat_id = re.sub(r"[^\x21-\x7e]", "", headers.get(CHAT_HEADER, ""))[:MAX_NAMESPACE_CHARACTERS]
        return Admission(namespace=access.own, mode=cast(Mode, mode), shared=access.shared, chat_id=chat_id)

    def _access(self, obj: Any, headers: Mapping[str, str], reason: str) -> Access:
        """Whose memory a request has. Raises `RefusedError`.

        The server's own requests come without a key. Nothing is remembered of them, and no two of them share a prefix
        cache, so that nobody who poses as one learns anything.
        """
        try:
            access = self.namespaces.access(headers, getattr(obj, USER_ATTRIBUTE, None))
        except RefusedError:
            if reason in OWN_REQUESTS:
                return Access(namespace=f"{DEFAULT_NAMESPACE}:{uuid.uuid4().hex}")
            raise
        if reason == "session" and self.namespaces.policy != "open":
            # SGLang continues a session for whoever names it.
            raise RefusedError("sessions are not served where namespaces are kept apart by key or proxy", 403)
        return access

    def _unserved(self, obj: Any) -> str:
        """Why a request is served without memory, as a counter's name; empty when it is served with it."""
        if not self._is_up():
            return "warm_up"
        if isinstance(obj.rid, str) and obj.rid.startswith(HEALTH_CHECK_RID):
            return "health_check"
        ids = obj.input_ids
        single = isinstance(obj.text, str) or (bool(ids) and isinstance(ids[0], int))
        if not single or not isinstance(obj.sampling_params, dict) or obj.sampling_params.get("n", 1) != 1:
            return "batch"
        if obj.image_data or obj.video_data or obj.audio_data:
            return "multimodal"
        if obj.session_params or getattr(obj, "session_id", None):
            return "session"
        if obj.return_logprob and _first_or(obj.logprob_start_len, -1) not in (None, -1):
            return "prompt_logprobs"
        return ""

    def ticket(
        self, obj: Any, admission: Admission, operation: Operation, placements: tuple[Placement, ...] = ()
    ) -> str:
        """The ticket that goes with a request, as it stands in `custom_params`."""
        return Ticket(
            operation=operation,
            namespace=admission.namespace,
            mode=admission.mode,
            shared=admission.shared,
            chat_id=admission.chat_id,
            max_new_tokens=int(obj.sampling_params.get("max_new_tokens") or 128),
            placements=placements,
        ).dump()

    async def generate(
        self, original: Generate, make_probe: Callable[..., Any], obj: Any, request: Any, headers: Mapping[str, str]
    ) -> AsyncIterator[dict[str, Any]]:
        """SGLang's `generate_request`, with a probe in front of it and the memory's report at its end."""
        admission = self.admit(obj, headers)
        _strip_client_ticket(obj)
        own_key = obj.extra_key
        if isinstance(own_key, list):
            obj.extra_key = [radix_key(admission.namespace, admission.mode, key) for key in own_key]
        else:
            obj.extra_key = radix_key(admission.namespace, admission.mode, own_key)
        report: dict[str, Any] = {"namespace": admission.namespace, "memory": admission.mode, "recalled": []}
        if admission.mode != "off":
            obj.rid = obj.rid or uuid.uuid4().hex
            if admission.mode != "write" and any(name in self.holding for name in admission.reads):
                report |= await self._probe(original, make_probe, obj, admission)
            if admission.mode != "read":
                self.holding.add(admission.namespace)
            placements = tuple(Placement(**p) for p in report.pop("placements", ()))
            _set_ticket(obj, self.ticket(obj, admission, "serve", placements))
        async for output in original(obj, request):
            yield _with_report(output, report)

    async def _probe(
        self, original: Generate, make_probe: Callable[..., Any], obj: Any, admission: Admission
    ) -> dict[str, Any]:
        """The scheduler's report on the prompt: placements, recalled events, votes. Empty when the probe failed."""
        started = time.perf_counter()
        probe = make_probe(obj, f"{obj.rid}#v14", {KEY: self.ticket(obj, admission, "probe")})
        found: dict[str, Any] = {}
        try:
            async for output in original(probe, None):
                found = (output.get("meta_info", {}).get(KEY) or [{}])[-1] or found
        except ValueError as error:
            # The request itself meets the same error (a prompt that is too long, say) and answers the client.
            logger.info("probe refused: %s", error)
        except Exception:
            logger.exception("a probe failed")
        if not found:
            self.counters["failed_probe"] += 1
            logger.warning("a probe came back without a plan; the request is served without recall")
        return {**found, "probe_ms": round((time.perf_counter() - started) * 1e3, 3)}


def _first_or(value: Any, default: Any) -> Any:
    return (value[0] if value else default) if isinstance(value, list) else value


def _strip_client_ticket(obj: Any) -> None:
    params = obj.sampling_params
    for entry in params if isinstance(params, list) else [params]:
        if isinstance(entry, dict) and isinstance(entry.get("custom_params"), dict):
            entry["custom_params"].pop(KEY, None)


def _set_ticket(obj: Any, ticket: str) -> None:
    obj.sampling_params = {
        **obj.sampling_params,
        "custom_params": {**(obj.sampling_params.get("custom_params") or {}), KEY: ticket},
    }


def _with_report(output: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """Take the span out of the usage figures, and add the report to the last output."""
    meta = output.get("meta_info") if isinstance(output, dict) else None
    if not isinstance(meta, dict):
        return output
    span_tokens = report.get("span_tokens", 0)
    for name in ("prompt_tokens", "cached_tokens"):
        if span_tokens and isinstance(meta.get(name), int):
            meta[name] = max(0, meta[name] - span_tokens)
    if meta.get("finish_reason") is not None:
        meta[KEY] = report
    return output
