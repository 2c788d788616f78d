"""The HTTP process: whose memory a request has, told to the scheduler; what was recalled, told to the client."""

import re
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from v14.config import Mode
from v14.engines.sglang.ticket import KEY, Ticket, radix_key
from v14.errors import RefusedError
from v14.keys import MAX_NAMESPACE_CHARACTERS
from v14.namespaces import DEFAULT_NAMESPACE, Access, Namespaces

MODE_HEADER = "x-v14-memory"
CHAT_HEADER = "x-v14-chat"
HEALTH_CHECK_RID = "HEALTH_CHECK"
OWN_REQUESTS = ("warm_up", "health_check")
"""Why the server's own requests are served without memory."""
USER_ATTRIBUTE = "v14_user"
"""Where the hook on the OpenAI routes leaves the `user` field for the front."""
TICKET_ATTRIBUTE = "v14_ticket"
"""Where a request of the memory's own carries its ticket. What a client sends becomes no attribute of that name."""

Generate = Callable[..., AsyncIterator[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Admission:
    """What a request asks of the memory."""

    namespace: str
    mode: Mode
    shared: tuple[str, ...] = ()
    chat_id: str = ""


class Front:
    """The memory's side of one TokenizerManager.

    `namespaces` says whose memory a request has, `is_up` whether the server's own warm-up is over.
    """

    def __init__(self, namespaces: Namespaces, is_up: Callable[[], bool]) -> None:
        self.counters: Counter[str] = Counter()
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
            raise RefusedError(
                "sessions are not served where namespaces are kept apart by key or proxy; ask without session_params",
                403,
            )
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

    @staticmethod
    def ticket(obj: Any, admission: Admission) -> str:
        """The ticket that goes with a request, as it stands in `custom_params`."""
        return Ticket(
            namespace=admission.namespace,
            mode=admission.mode,
            shared=admission.shared,
            chat_id=admission.chat_id,
            max_new_tokens=int(obj.sampling_params.get("max_new_tokens") or 128),
        ).dump()

    async def generate(
        self, original: Generate, obj: Any, request: Any, headers: Mapping[str, str]
    ) -> AsyncIterator[dict[str, Any]]:
        """SGLang's `generate_request` with a ticket for the scheduler, and the memory's report at its end."""
        try:
            admission = self.admit(obj, headers)
        except ValueError as error:
            self.counters[f"refused_{getattr(error, 'status_code', 400)}"] += 1
            raise
        _strip_client_ticket(obj)
        own_key = obj.extra_key
        if isinstance(own_key, list):
            obj.extra_key = [radix_key(admission.namespace, admission.mode, key) for key in own_key]
        else:
            obj.extra_key = radix_key(admission.namespace, admission.mode, own_key)
        report: dict[str, Any] = {"namespace": admission.namespace, "memory": admission.mode, "recalled": []}
        if admission.mode != "off":
            _set_ticket(obj, self.ticket(obj, admission))
        async for output in original(obj, request):
            report |= _found(output)
            yield _with_report(output, report)


def prepare(obj: Any, ticket: Ticket) -> None:
    """Let a request of the memory's own (an import) go to the scheduler with the ticket that it brought."""
    obj.extra_key = radix_key(ticket.namespace, ticket.mode, None)
    _set_ticket(obj, ticket.dump())


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


def _found(output: dict[str, Any]) -> dict[str, Any]:
    """Take the scheduler's report out of an output. It comes with a request's first token, and what was recalled while
    it decodes with the token behind that; others carry None."""
    meta = output.get("meta_info") if isinstance(output, dict) else None
    entries = meta.pop(KEY, None) if isinstance(meta, dict) else None
    found: dict[str, Any] = {}
    for entry in entries or ():
        found |= entry if isinstance(entry, dict) else {}
    return found


def _with_report(output: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """Take the spans out of the usage figures, and add the report to the last output.

    SGLang counts cached tokens once, when the prompt is read.
    """
    meta = output.get("meta_info") if isinstance(output, dict) else None
    if not isinstance(meta, dict):
        return output
    in_prompt = report.get("span_tokens", 0)
    later = sum(recall["span_tokens"] for recall in report.get("while_decoding", ()))
    for name, span_tokens in (("prompt_tokens", in_prompt + later), ("cached_tokens", in_prompt)):
        if span_tokens and isinstance(meta.get(name), int):
            meta[name] = max(0, meta[name] - span_tokens)
    if meta.get("finish_reason") is not None:
        meta[KEY] = report
    return output
