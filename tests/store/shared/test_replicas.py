"""Two real SGLang servers over one shared store: told at one, asked at the other, as at one."""

import os
from concurrent.futures import ThreadPoolExecutor
from operator import eq
from pathlib import Path

import pytest

from tests.counts import counted
from tests.shared_servers import Postgres
from tests.store.contract.places import Shared
from v14.check.client import ChatClient
from v14.check.facts import Fact, generate
from v14.check.questions import NUM_FACTS
from v14.check.scoring import contains, recalled
from v14.check.server import Server
from v14.check.suite import ANSWER_TOKENS, NUM_CLIENTS, TELL_TOKENS, user
from v14.store.looking import views

MODEL = Path(os.environ.get("MODEL") or Path(__file__).parents[3] / ".demo" / "SmolLM2-135M-Instruct-V14")

pytestmark = [
    pytest.mark.shared,
    pytest.mark.slow,
    pytest.mark.engine,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(not MODEL.is_dir(), reason=f"no {MODEL}: `make demo` makes it, MODEL=… names another"),
]


def tell_and_ask(facts: list[Fact], namespace: str, told_at: Server, asked_at: Server) -> list[tuple[bool, bool]]:
    """Of every fact, told and asked in a chat of its own: was it recalled, was the answer right."""
    teller, asker = (ChatClient(url=server.url, namespace=namespace) for server in (told_at, asked_at))
    with ThreadPoolExecutor(NUM_CLIENTS) as pool:
        list(pool.map(lambda fact: teller.chat(user(fact.statement), max_tokens=TELL_TOKENS), facts))
        replies = list(pool.map(lambda fact: asker.chat(user(fact.question), max_tokens=ANSWER_TOKENS), facts))
    return [
        (recalled(reply.account, fact), contains(reply.text, [fact.value]))
        for reply, fact in zip(replies, facts, strict=True)
    ]


def test_told_at_one_asked_at_the_other(servers: tuple[Postgres, int], shared: Shared, tmp_path: Path) -> None:
    url = (
        f"postgresql://v14@127.0.0.1:{servers[0].port}/postgres?"
        f"segments={shared.home.segments}&endpoint=http://127.0.0.1:{servers[1]}"
    )
    facts = generate(0, NUM_FACTS)
    one, other = (
        Server(
            model_dir=MODEL, home=tmp_path / "unused", log=tmp_path / f"{name}.log", start_timeout_s=900,
            # In fp32 an answer does not hang on what else was in the batch.
            arguments=("--dtype", "float32"), environment={"SGLANG_V14_MEMORY_HOME": url},
        )
        for name in ("one", "other")
    )  # fmt: skip
    with one, other:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(Server.start, (one, other)))
        reference = tell_and_ask(facts, "reference", one, one)
        found = tell_and_ask(facts, "both", one, other)
        for name, facts_found in (("told and asked at one", reference), ("asked at the other", found)):
            num_recalled, num_right = map(sum, zip(*facts_found, strict=True))
            counted(f"{name}: {num_recalled} of {NUM_FACTS} recalled, {num_right} of {NUM_FACTS} answered right")
        counted(f"{sum(map(eq, found, reference))} of {NUM_FACTS} facts as at one")
        assert found == reference
        # How many is the model's affair; few would say nothing.
        assert sum(was_recalled for was_recalled, _ in found) > 0.8 * NUM_FACTS
        tracebacks = one.tracebacks() + other.tracebacks()
    [store] = [view for view in views(shared.home) if "both" in view.namespaces]
    counted(f"{store.num_events} events, {store.num_bytes} bytes, {tracebacks} tracebacks")
    assert not tracebacks
