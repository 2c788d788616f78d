"""First-token wait and decode speed with the memory on and off, in turns so that drift touches both alike."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from v14.check.client import ChatClient, Reply
from v14.check.facts import Fact

NUM_TOKENS = 48


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Medians over `repeats` requests each; `recalling` of `accounted` timed replies say that they recalled."""

    first_token_on_s: float
    first_token_off_s: float
    decode_on: float
    decode_off: float
    recalling: int
    accounted: int


def measure(
    client: ChatClient,
    facts: Sequence[Fact],
    prompt: str,
    *,
    seed: int,
    repeats: int,
    step: Callable[[], None] = lambda: None,
) -> Speed:
    """Time streamed questions about stored `facts`, put as `prompt` has it; `step` is called after each request.

    Every prompt begins with a number of its own, so that no prompt finds another one's prefix in the cache.
    One request of each kind goes ahead untimed.
    """
    rng = random.Random(f"speed {seed}")
    numbers = iter(rng.sample(range(100_000, 1_000_000), 2 * (repeats + 1)))
    timed: dict[str, list[Reply]] = {"read": [], "off": []}
    for repeat in range(repeats + 1):
        fact = facts[repeat % len(facts)]
        for memory in ("read", "off") if repeat % 2 else ("off", "read"):
            message = {"role": "user", "content": prompt.format(n=next(numbers), q=fact.question)}
            reply = client.stream(
                [message], max_tokens=NUM_TOKENS, memory="read" if memory == "read" else "off", whole_length=True
            )
            if repeat:
                timed[memory].append(reply)
            step()
    accounts = [reply.account for reply in timed["read"] if reply.account is not None]
    return Speed(
        first_token_on_s=median(reply.first_token_s for reply in timed["read"]),
        first_token_off_s=median(reply.first_token_s for reply in timed["off"]),
        decode_on=median(reply.decode_tokens_per_s for reply in timed["read"]),
        decode_off=median(reply.decode_tokens_per_s for reply in timed["off"]),
        recalling=sum(bool(account.recalled) for account in accounts),
        accounted=len(accounts),
    )
