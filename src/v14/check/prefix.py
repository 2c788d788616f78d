"""Rows about the prefix cache: a long prompt read for the first time, again right behind itself, and after a pause."""

import time
from statistics import median

from v14.check.suite import Suite, user
from v14.config import Mode
from v14.errors import CheckError

NUM_WORDS = 1450
"""About 2,000 tokens with the template's, as in the table that the check is compared with."""
NUM_PROMPTS = 3
NUM_TOKENS = 4
PAUSE_S = 15.0
TIMES = ("prefix_cold", "prefix_right_behind", "prefix_after_pause")
ROWS = (*TIMES, *(f"{name}_off" for name in TIMES), "prefix_tokens")


def prefix_cache(suite: Suite) -> None:
    """Rows `prefix_cold`, `prefix_right_behind`, `prefix_after_pause` (medians, s) and the same with the memory off."""
    long_text = suite.questions.long_text
    if long_text is None:
        suite.skip("passages", *ROWS)
        return
    step = suite.phase("prefix cache", 6 * NUM_PROMPTS)
    prompts = [long_text(1000 + number, "", NUM_WORDS) for number in range(NUM_PROMPTS)]
    lengths: list[int] = []

    def first_token(prompt: str, memory: Mode) -> float:
        try:
            reply = suite.client.stream(user(prompt), max_tokens=NUM_TOKENS, memory=memory)
        except CheckError as error:
            suite.note(error)
            return float("nan")
        finally:
            step()
        lengths.append(reply.prompt_tokens)
        return reply.first_token_s

    modes: tuple[tuple[Mode, str], ...] = (("both", ""), ("off", "_off"))
    times: dict[str, list[float]] = {}
    for mode, suffix in modes:
        for prompt in prompts:
            times.setdefault("prefix_cold" + suffix, []).append(first_token(prompt, mode))
            times.setdefault("prefix_right_behind" + suffix, []).append(first_token(prompt, mode))
    time.sleep(PAUSE_S)
    for mode, suffix in modes:
        times["prefix_after_pause" + suffix] = [first_token(prompt, mode) for prompt in prompts]
    for name, seconds in times.items():
        served = [value for value in seconds if value == value]
        if served:
            suite.report.measure(name, median(served), "s")
        else:
            suite.report.skip("every request failed; look at the server's log", name)
    if lengths:
        suite.report.measure("prefix_tokens", median(lengths), "tokens")
