"""Events that a number makes: whoever knows namespace and number knows every byte that the store must give back."""

import random

import torch

from v14.types import Engram, Event, Trace

WEIGHTS = "sha256:" + "0123456789abcdef" * 4

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def noise(rng: random.Random, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Any bits at all, NaN and infinities among them."""
    size = torch.Size(shape).numel() * dtype.itemsize
    if not size:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(rng.randbytes(size)), dtype=dtype).view(shape)


def made(number: int, namespace: str = "home", *, large: bool = False) -> tuple[Event, Trace]:
    """The event of a number (its first token) and its trace; a large one has up to 128 KiB, every fourth an engram."""
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
    keys, values = noise(rng, shape, dtype), noise(rng, shape, dtype)
    return event, Trace(keys=keys, values=values, engram=made_engram(rng) if number % 4 == 3 else None)


def made_engram(rng: random.Random) -> Engram:
    """Any bits at all, and any ranks, 0 among them."""
    layers, heads, key_dim, value_dim = 2, rng.randint(0, 3), rng.randint(0, 4), rng.randint(0, 4)
    erase_rank, write_rank, num_inputs = rng.randint(0, 3), rng.randint(0, 3), rng.randint(0, 3)
    dtype = rng.choice(DTYPES)
    return Engram(
        decay=noise(rng, (layers, heads), torch.float32),
        erase_left=noise(rng, (layers, heads, key_dim, erase_rank), dtype),
        erase_right=noise(rng, (layers, heads, key_dim, erase_rank), dtype),
        write_values=noise(rng, (layers, heads, value_dim, write_rank), dtype),
        write_keys=noise(rng, (layers, heads, key_dim, write_rank), dtype),
        tail=noise(rng, (layers, 5, num_inputs), rng.choice(DTYPES)),
    )


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
    return same_bits(left.keys, right.keys) and same_bits(left.values, right.values) and same_engram(left, right)


def same_engram(left: Trace, right: Trace) -> bool:
    if left.engram is None or right.engram is None:
        return left.engram is right.engram
    fields = right.engram.tensors()
    return all(same_bits(tensor, fields[name]) for name, tensor in left.engram.tensors().items())
