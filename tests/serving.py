"""A real SGLang server on a tiny V14 directory: CPU, fp32, and what tests ask of it."""

import json
import os
import random
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.tiny import VOCAB_SIZE, turns_of
from v14.check.server import Server

START_TIMEOUT_S = float(os.environ.get("SERVER_START_S", "240"))
"""A machine that is busy with other work needs more."""

ARGUMENTS = (
    "--dtype",
    "float32",
    "--max-total-tokens",
    "16384",
    "--context-length",
    "4096",
    "--max-running-requests",
    "8",
)


@contextmanager
def serving(model_dir: Path, home: Path, *arguments: str, **environment: str):
    """A started server of `model_dir` with its store in `home`; its log stands beside the store."""
    server = Server(
        model_dir=model_dir,
        home=home,
        log=home.parent / f"{home.name}.log",
        arguments=(*ARGUMENTS, *arguments),
        environment=environment,
        start_timeout_s=START_TIMEOUT_S,
    )
    with server:
        server.start()
        yield server


def post(server: Server, route: str, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    """POST JSON; header names are given with underscores (`X_V14_Namespace`)."""
    request = urllib.request.Request(
        server.url + route,
        json.dumps(body).encode(),
        {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}},
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": error.read().decode()}


def generate(
    server: Server,
    ids: list[int],
    *,
    num_tokens: int = 4,
    logprobs: bool = False,
    mode: str = "both",
    namespace: str = "n",
) -> dict[str, Any]:
    """SGLang's own `/generate` on token ids, greedy; with `logprobs`, of the whole vocabulary."""
    body: dict[str, Any] = {
        "input_ids": ids,
        "sampling_params": {"max_new_tokens": num_tokens, "temperature": 0.0, "ignore_eos": True},
    }
    if logprobs:
        body |= {"return_logprob": True, "top_logprobs_num": VOCAB_SIZE}
    return post(server, "/generate", body, X_V14_Namespace=namespace, X_V14_Memory=mode)


def stream(
    server: Server, ids: list[int], *, num_tokens: int = 4, mode: str = "both", namespace: str = "n"
) -> Iterator[dict[str, Any]]:
    """The parts of a streamed reply as they come, greedy; each holds all tokens so far."""
    body = {
        "input_ids": ids,
        "sampling_params": {"max_new_tokens": num_tokens, "temperature": 0.0, "ignore_eos": True},
        "stream": True,
    }
    headers = {"Content-Type": "application/json", "X-V14-Namespace": namespace, "X-V14-Memory": mode}
    request = urllib.request.Request(server.url + "/generate", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as reply:
        for line in reply:
            if line.startswith(b"data: {"):
                yield json.loads(line.removeprefix(b"data: "))


def distributions(reply: dict[str, Any]) -> list[dict[int, float]]:
    """Log-probabilities by token id, one dictionary for each generated position."""
    return [{token: value for value, token, _ in row} for row in reply["meta_info"]["output_top_logprobs"]]


def turn(checkpoint: Path, role: str, num_tokens: int, seed: int) -> list[int]:
    """A turn of exactly `num_tokens` tokens, wrapper included, its content random ordinary tokens.

    A negative number gives a turn of that many tokens that is not closed.
    """
    form = turns_of(checkpoint)
    closing = form.closing if num_tokens > 0 else ()
    content = abs(num_tokens) - len(form.openings[role]) - len(closing)
    assert content >= 1
    rng = random.Random(seed)
    return [*form.openings[role], *(rng.randrange(300, 900) for _ in range(content)), *closing]


def stream_and_drop(server: Server, ids: list[int], *, namespace: str) -> None:
    """Ask for a long streamed reply and close the connection after its first part."""
    body = {
        "input_ids": ids,
        "sampling_params": {"max_new_tokens": 400, "temperature": 0.0, "ignore_eos": True},
        "stream": True,
    }
    headers = {"Content-Type": "application/json", "X-V14-Namespace": namespace}
    request = urllib.request.Request(server.url + "/generate", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as reply:
        assert reply.readline().startswith(b"data:")


def flush_cache(server: Server) -> None:
    """Empty the engine's prefix cache, so that nothing read before can stand in for what is placed."""
    request = urllib.request.Request(server.url + "/flush_cache?timeout=30", b"", method="POST")
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert reply.status == 200
