"""One whole check: of a V14 directory with a server of its own, or of a server that runs already."""

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from v14.check.client import ChatClient
from v14.check.document import document
from v14.check.picture import picture
from v14.check.prefix import prefix_cache
from v14.check.questions import Questions
from v14.check.relations import corrections, two_steps
from v14.check.rows import Report
from v14.check.server import Server
from v14.check.suite import AFTER_CHATS, AFTER_RESTART, Phase, Suite
from v14.errors import CheckError
from v14.store.view import views

Changed = Callable[[Report], None]
"""Is called with the report after every row."""

MB = 1e6
ASKED_AGAIN = ("facts", "right_event_recalled", "unrelated", "unrelated_recalling")
"""Rows that come again after the chats and after the restart."""
STORE_ROWS = ("store_bytes", "store_events", "store_tokens", "bytes_per_token")


def nothing(report: Report) -> None:
    """What there is to do with a row that is only wanted at the end."""


def check_directory(
    model_dir: Path,
    questions: Questions,
    *,
    seed: int,
    work: Path,
    phase: Phase,
    arguments: Sequence[str] = (),
    changed: Changed = nothing,
) -> Report:
    """All rows that there are `questions` for, on a server of `model_dir`; its store is below the empty `work`.

    The store stays in `work/memory`, the log in `work/server.log`. Raises `CheckError` if the server fails.
    """
    if not (model_dir / "config.json").is_file():
        raise CheckError(f"{model_dir} is no model directory: it has no config.json; make one with `v14 upgrade`")
    home = work / "memory"
    home.mkdir(parents=True)
    report = Report(model=model_dir.resolve().name, seed=seed, questions=questions.source, changed=changed)
    with Server(model_dir=model_dir, home=home, log=work / "server.log", arguments=arguments) as server:
        _start(server, phase, "start the server")
        suite = _suite(server.url, report, questions, phase, lambda: server.running)
        _first_half(suite)
        server.stop()
        _start(server, phase, "restart the server")
        suite.client = _client(server.url, suite.client.namespace)
        suite.ask(AFTER_RESTART)
        suite.unrelated(AFTER_RESTART, baseline=False)
        _second_half(suite)
        server.stop()
        _store_size(report, home)
        _failures(suite)
        report.measure("tracebacks", server.tracebacks(), "tracebacks")
    report.end()
    return report


def check_url(url: str, questions: Questions, *, seed: int, phase: Phase, changed: Changed = nothing) -> Report:
    """The rows that a running server can give, in a namespace that no run had before."""
    model = ChatClient(url=url).model()
    report = Report(model=model, seed=seed, questions=questions.source, changed=changed)
    suite = _suite(url, report, questions, phase, ChatClient(url=url, timeout_s=30.0).healthy)
    _first_half(suite)
    _second_half(suite)
    _failures(suite)
    report.skip("needs a server of its own, to restart it", *(name + AFTER_RESTART for name in ASKED_AGAIN))
    report.skip("needs the store's directory", *STORE_ROWS)
    report.skip("needs the server's log", "tracebacks")
    report.end()
    return report


def passed(report: Report) -> bool:
    """Whether the server ran without a traceback; how many answers are right is for people to judge."""
    return not report.value("tracebacks")


def _first_half(suite: Suite) -> None:
    suite.tell()
    suite.ask()
    suite.ask_without_memory()
    suite.unrelated(baseline=True)
    if suite.questions.chats:
        suite.chats()
        suite.ask(AFTER_CHATS)
        suite.unrelated(AFTER_CHATS, baseline=False)
    else:
        suite.skip("chats", *(name + AFTER_CHATS for name in ASKED_AGAIN))


def _second_half(suite: Suite) -> None:
    suite.four_at_once()
    suite.long_prompt()
    suite.dropped_stream()
    corrections(suite)
    two_steps(suite)
    picture(suite)
    suite.speed()
    prefix_cache(suite)
    document(suite)
    suite.accept_length()


def _suite(url: str, report: Report, questions: Questions, phase: Phase, alive: Callable[[], bool]) -> Suite:
    namespace = f"check-{report.seed}-{uuid.uuid4().hex[:8]}"
    client = _client(url, namespace)
    return Suite(client=client, report=report, questions=questions, phase=phase, alive=alive)


def _client(url: str, namespace: str) -> ChatClient:
    return ChatClient(url=url, namespace=namespace)


def _start(server: Server, phase: Phase, name: str) -> None:
    step = phase(name, 1)
    server.start()
    step()


def _failures(suite: Suite) -> None:
    suite.report.measure("failed_requests", len(suite.failures), "requests")


def _store_size(report: Report, home: Path) -> None:
    stores = views(home)
    num_tokens = sum(store.num_tokens for store in stores)
    if num_tokens:
        num_bytes = sum(store.num_bytes for store in stores)
        report.measure("store_bytes", num_bytes / MB, "MB")
        report.measure("store_events", sum(store.num_events for store in stores), "events")
        report.measure("store_tokens", num_tokens, "tokens")
        report.measure("bytes_per_token", num_bytes / num_tokens, "bytes/token")
    else:
        report.skip("nothing was stored", *STORE_ROWS)
