"""A server of the chat API without a model: it answers by rule, with a memory that can be good, absent or wrong."""

import base64
import json
import re
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from v14.check.facts import SUBJECTS, Subject
from v14.check.picture import COLOURS
from v14.check.related import CHAINS, CHANGING
from v14.check.unrelated import questions

Kind = Literal["good", "none", "wrong", "eager"]
"""good: recalls what was asked for; none: no memory; wrong: recalls another event; eager: recalls always."""

ANSWERS = {question.text: question.accepted[0] for seed in range(20) for question in questions(seed)}


@lru_cache(None)
def _shape(sentence: str) -> re.Pattern[str]:
    pattern = re.escape(sentence)
    for name in "svb":
        pattern = pattern.replace(rf"\{{{name}\}}", f"(?P<{name}>.+?)")
    return re.compile(pattern)


STATEMENTS = [(_shape(subject.statement), subject) for subject in SUBJECTS]


@lru_cache(10_000)
def stated(text: str) -> tuple[tuple[Subject, str, str], ...]:
    """Subject, variant and value of everything that `text` states. A long text is looked at once."""
    return tuple(
        (subject, match.groupdict().get("s", ""), match["v"])
        for shape, subject in STATEMENTS
        for match in shape.finditer(text)
    )


def value_of(text: str, question: str) -> str | None:
    """The value that `text` states, if it is what `question` asks for."""
    for subject, variant, value in stated(text):
        if any(form.format(s=variant) in question for form in (subject.direct, subject.reworded)):
            return value
    return None


def relevant(texts: list[str], question: str) -> list[str]:
    """Those of the texts that it takes to answer the question, in their order."""
    for told, changed, asked, _ in CHANGING:
        if asked in question:
            return [text for text in texts if _shape(told).search(text) or _shape(changed).search(text)]
    for first, second, asked, *_ in CHAINS:
        if asked in question:
            starts = [text for text in texts if _shape(first).search(text)]
            links = {_shape(first).search(text)["b"] for text in starts}
            return starts + [t for t in texts if (m := _shape(second).search(t)) and m["b"] in links]
    return [text for text in texts if value_of(text, question)]


def answer_from(texts: list[str], question: str) -> str | None:
    """What the texts say to the question: what was said last counts."""
    shapes = [_shape(line[0]) for line in CHANGING if line[2] in question]
    shapes += [_shape(line[1]) for line in (*CHANGING, *CHAINS) if line[2] in question]
    found = [match["v"] for text in relevant(texts, question) for shape in shapes if (match := shape.search(text))]
    return found[-1] if found else next((value for text in texts if (value := value_of(text, question))), None)


def words(content: str | list[dict[str, Any]]) -> str:
    """A message's text; of a picture, the name of its colour."""
    if isinstance(content, str):
        return content
    return " ".join(part["text"] if part["type"] == "text" else colour(part["image_url"]["url"]) for part in content)


def colour(url: str) -> str:
    """The name of the first pixel's colour of a PNG in a data URL."""
    data = base64.b64decode(url.partition("base64,")[2])
    start = data.index(b"IDAT")
    length = int.from_bytes(data[start - 4 : start], "big")
    pixel = tuple(zlib.decompress(data[start + 4 : start + 4 + length])[1:4])
    return next(name for name, rgb in COLOURS.items() if rgb == pixel)


@dataclass
class FakeModel:
    """Answers a question from what stands in the chat, or from an event of its namespace."""

    kind: Kind = "good"
    stored: dict[str, list[str]] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    failing: bool = False
    pictures: Literal["none", "forgotten", "remembered"] = "none"
    info: dict[str, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, messages: list[dict[str, Any]], namespace: str, memory: str) -> tuple[str, dict[str, Any]]:
        text = words(messages[-1]["content"])
        shown = [message for message in messages if not isinstance(message["content"], str)]
        if shown and self.pictures == "forgotten":
            memory = "off"
        with self.lock:
            self.requests.append({"messages": messages, "namespace": namespace, "memory": memory})
            events = list(self.stored.get(namespace, ()))
            if memory in ("both", "write") and self.kind != "none":
                self.stored.setdefault(namespace, []).append(text)
        readable = events if memory in ("both", "read") and self.kind != "none" else []
        recalled = self._recall(readable, text)
        known = [words(message["content"]) for message in messages[:-1]] + recalled
        reply = ANSWERS.get(text) or answer_from(known, text)
        if "sign above my shop" in text:
            seen = {name for known_text in known + readable for name in COLOURS if name in known_text}
            reply = " ".join(sorted(seen))
        report = {
            "namespace": namespace,
            "memory": memory,
            "recalled": [
                {
                    "id": f"sha256:{n}",
                    "namespace": namespace,
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
        right = relevant(events, question)
        others = [event for event in events if event not in right]
        if self.kind == "wrong":
            return others[:1] if right else []
        return right or (others[:1] if self.kind == "eager" else [])


@contextmanager
def serve(model: FakeModel, port: int = 0) -> Iterator[str]:
    """The address of a server of `model`."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            answers = {
                "/v1/models": {"data": [{"id": "fake"}]},
                "/health": {},
                "/get_server_info": model.info,
                "/model_info": {"has_image_understanding": model.pictures != "none"},
                "/v14/stats": {"num_pending": 0},
            }
            if self.path in answers:
                self._json(answers[self.path])
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if model.failing:
                self.send_error(500)
                return
            namespace, memory = self.headers["X-V14-Namespace"], self.headers["X-V14-Memory"]
            text, report = model.answer(body["messages"], namespace, memory)
            metadata = {"v14": report} if model.kind != "none" else None
            usage = {
                "prompt_tokens": sum(len(words(m["content"]).split()) for m in body["messages"]),
                "completion_tokens": 8,
            }
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
