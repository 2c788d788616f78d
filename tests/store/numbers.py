"""Events whose traces are numbers as a model computes them, so that they can be quantised."""

import torch

from v14.types import Event, Trace

SHAPE = (4, 2, 16)
"""Layers, heads, dimensions."""


def event(number: int, namespace: str = "home", *, num_tokens: int = 24, chat_id: str = "") -> Event:
    """Tokens from `100_000 · number` on: to be found in a file if they are there."""
    tokens = tuple(100_000 * (number + 1) + place for place in range(num_tokens))
    return Event(
        namespace=namespace,
        chat_id=chat_id or f"chat-of-{number}",
        role="user",
        said_at=float(number),
        token_ids=tokens,
    )


def trace(number: int, *, num_tokens: int = 24, dtype: torch.dtype = torch.bfloat16) -> Trace:
    """Normal numbers; a channel of the keys is far off, as real ones are."""
    generator = torch.Generator().manual_seed(number)
    layers, heads, dim = SHAPE
    keys = torch.randn(layers, num_tokens, heads, dim, generator=generator)
    keys[..., 3] += 40
    values = torch.randn(layers, num_tokens, heads, dim, generator=generator)
    return Trace(keys=keys.to(dtype), values=values.to(dtype))


def told(*numbers: int, namespace: str = "home") -> list[tuple[Event, Trace]]:
    """Events and their traces."""
    return [(event(number, namespace), trace(number)) for number in numbers]
