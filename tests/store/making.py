"""Events that a number makes: whoever knows namespace and number knows every byte that the store must give back."""

import random

import torch

from v14.types import Event, Trace

WEIGHTS = "sha256:" + "0123456789abcdef" * 4

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def noise(rng: random.Random, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Any bits at all, NaN and infinities among them."""
    size = torch.Size(shape).numel() * dtype.itemsize
    if not size:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(rng.randbytes(size)), dtype=dtype).view(shape)


def made(number: int, namespace: str = "home", *, large: bool = False) -> tuple[Event, Trace]:
    """The event of a number (its first token) and its trace; a large one has up to 128 KiB."""
    rng = random.Random(f"{namespace}/{number}/{large}")
    num_tokens = rng.randint(2, 8)
    heads, dim = (8, 512 // num_tokens) if large else (rng.randint(1, 3), rng.choice((1, 4, 5)))
    tokens = (number, int(large), *(rng.randrange(1 << 31) for _ in range(num_tokens - 2)))
    closing_len = rng.randrange(num_tokens - 1)
    event = Event(
        namespace=namespace,
        chat_id=f"chat-{number % 3}",
        role=rng.choice(("user", "assistant")),
        said_at=float(number),
        token_ids=tokens,
        # A body may be shorter than number and size: the parent keeps the ids apart.
        parent=f"sha256:{number:063x}{int(large)}",
        closing_len=closing_len,
    )
    shape = (4, num_tokens, heads, dim)
    dtype = rng.choice(DTYPES)
    return event, Trace(keys=noise(rng, shape, dtype), values=noise(rng, shape, dtype))


def again(event: Event) -> tuple[Event, Trace]:
    """What `made` must have made of an event that a store lists."""
    return made(event.token_ids[0], event.namespace, large=bool(event.token_ids[1]))


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal shape, dtype and bits (NaN equals itself)."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return bits(left) == bits(right)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def same_trace(left: Trace, right: Trace) -> bool:
    return same_bits(left.keys, right.keys) and same_bits(left.values, right.values)
