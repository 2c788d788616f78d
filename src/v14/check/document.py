"""Rows about a long document: how long storing it takes, and a fact in the middle of it."""

import time

from v14.check.scoring import contains
from v14.check.suite import Suite, user
from v14.errors import CheckError

NUM_WORDS = 7000
TOKENS_PER_WORD = 1.45
"""Generous, so that a document that is sent fits."""
PATIENCE_S = 120.0
POLL_S = 0.05
ROWS = ("document_fact", "document_fact_same_chat", "document_read", "document_stored", "document_tokens")


def document(suite: Suite) -> None:
    """Rows `document_…`: a document of about 9,000 tokens is read and stored, then asked about in another chat.

    `document_stored` is the time from sending it until all of it is on disk, `document_read` until the reply.
    """
    long_text = suite.long_text(*ROWS)
    if long_text is None:
        return
    room = suite.room_tokens()
    needed = int(NUM_WORDS * TOKENS_PER_WORD)
    if room is not None and room < needed:
        suite.report.skip(f"a prompt of {needed} tokens does not fit: the server takes {room}", *ROWS)
        return
    step = suite.phase("a long document", 3)
    fact = suite.spare_facts[6]
    text = long_text(2000, fact.statement, NUM_WORDS)
    started = time.monotonic()
    told = suite.say(user(text), max_tokens=1)
    read_s = time.monotonic() - started
    step()
    stored_s = _on_disk(suite, started)
    asked = suite.say(user(fact.question))
    step()
    same = suite.say([*user(text), {"role": "assistant", "content": "Okay."}, *user(fact.question)], memory="off")
    step()
    suite.report.count("document_fact", contains(asked.text, [fact.value]), 1)
    suite.report.count("document_fact_same_chat", contains(same.text, [fact.value]), 1)
    suite.report.measure("document_read", read_s, "s")
    if stored_s is None:
        suite.report.skip("the server does not say what it has still to write (GET /v14/stats)", "document_stored")
    else:
        suite.report.measure("document_stored", stored_s, "s")
    suite.report.measure("document_tokens", told.prompt_tokens, "tokens")


def _on_disk(suite: Suite, started: float) -> float | None:
    """Seconds from `started` until nothing waits to be written; None where the server does not say."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            stats = suite.client.get("/v14/stats")
        except CheckError:
            return None
        if stats.get("num_pending") == 0:
            return time.monotonic() - started
        time.sleep(POLL_S)
    return None
