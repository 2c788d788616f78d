"""A server of the chat API without a model: it answers by rule, with a memory that can be good, absent or wrong."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from v14.check.facts import SUBJECTS
from v14.check.unrelated import questions

Kind = Literal["good", "none", "wrong", "eager"]
"""good: recalls what was asked for; none: no memory; wrong: recalls another event; eager: recalls always."""

ANSWERS = {question.text: question.accepted[0] for seed in range(20) for question in questions(seed)}


def _shape(sentence: str) -> re.Pattern[str]:
    return re.compile(re.escape(sentence).replace(r"\{s\}", "(?P<s>.+?)").replace(r"\{v\}", "(?P<v>.+?)"))


STATEMENTS = [(_shape(subject.statement), subject) for subject in SUBJECTS]


def value_of(text: str, question: str) -> str | None:
    """The value that `text` states, if it is what `question` asks for."""
    for shape, subject in STATEMENTS:
        for match in shape.finditer(text):
            variant = match.groupdict().get("s", "")
            if any(form.format(s=variant) in question for form in (subject.direct, subject.reworded)):
                return match["v"]
    return None


@dataclass
class FakeModel:
    """Answers a question from what stands in the chat, or from an event of its namespace."""

    kind: Kind = "good"
    stored: dict[str, list[str]] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    failing: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, messages: list[dict[str, str]], namespace: str, memory: str) -> tuple[str, dict[str, Any]]:
        text = messages[-1]["content"]
        with self.lock:
            self.requests.append({"messages": messages, "namespace": namespace, "memory": memory})
            events = list(self.stored.get(namespace, ()))
            if memory in ("both", "write") and self.kind != "none":
                self.stored.setdefault(namespace, []).append(text)
        readable = events if memory in ("both", "read") and self.kind != "none" else []
        recalled = self._recall(readable, text)
        known = [message["content"] for message in messages[:-1]] + recalled
        reply = ANSWERS.get(text) or next((v for known_text in known if (v := value_of(known_text, text))), None)
        report = {
            "namespace": namespace,
            "memory": memory,
            "recalled": [
                {
                    "id": f"sha256:{n}",
                    "chat_id": "c",
                    "role": "user",
                    "said_at": 1.0,
                    "num_tokens": 9,
                    "vote": 0.5,
                    "text": event,
                }
                for n, event in enumerate(recalled)
            ],
            "votes": [{"id": "sha256:0", "value": 0.5}] if recalled else [],
            "floor": 0.1,
            "reason": "as asked",
        }
        return reply or "I do not know.", report

    def _recall(self, events: list[str], question: str) -> list[str]:
        right = [event for event in events if value_of(event, question)]
        others = [event for event in events if event not in right]
        if self.kind == "wrong":
            return others[:1] if right else []
        return right[:1] or (others[:1] if self.kind == "eager" else [])


@contextmanager
def serve(model: FakeModel, port: int = 0) -> Iterator[str]:
    """The address of a server of `model`."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self._json({"data": [{"id": "fake"}]} if self.path == "/v1/models" else {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if model.failing:
                self.send_error(500)
                return
            namespace, memory = self.headers["X-V14-Namespace"], self.headers["X-V14-Memory"]
            text, report = model.answer(body["messages"], namespace, memory)
            metadata = {"v14": report} if model.kind != "none" else None
            usage = {"prompt_tokens": sum(len(m["content"].split()) for m in body["messages"]), "completion_tokens": 8}
            if not body.get("stream"):
                choice = {"message": {"role": "assistant", "content": text}}
                self._json({"choices": [choice], "usage": usage, "metadata": metadata})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                for word in ("One", " two", " three"):
                    self._chunk({"choices": [{"delta": {"content": word}, "finish_reason": None}]})
                    time.sleep(0.005)
                self._chunk({"choices": [{"delta": {}, "finish_reason": "length"}]})
                self._chunk({"choices": [], "usage": usage, "metadata": metadata})
                self.wfile.write(b"data: [DONE]\n\n")
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _chunk(self, data: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()

        def _json(self, data: dict[str, Any]) -> None:
            payload = json.dumps(data).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
