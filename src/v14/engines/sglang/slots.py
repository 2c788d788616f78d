"""Reading and writing slots of one layer's keys or values, `[slots, H, D]`, whatever the pool's dtype.

PyTorch has no indexing of 8-bit floats, so their bytes are indexed. What is read of them is bfloat16, which holds every
value of theirs exactly and in which keys can be moved; what is written is rounded as the engine rounds its own.
"""

import torch


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype that `read` gives for a buffer of `dtype`."""
    return torch.bfloat16 if dtype.itemsize == 1 else dtype


def read(buffer: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """The contents of some slots `[n]`, `[n, H, D]`."""
    if buffer.dtype.itemsize > 1:
        return buffer[slots]
    return buffer.view(torch.uint8)[slots].view(buffer.dtype).to(wide(buffer.dtype))


def write(buffer: torch.Tensor, slots: torch.Tensor, contents: torch.Tensor | float) -> None:
    """Fill some slots `[n]` with `[n, H, D]`, or each number of them with the same."""
    if not isinstance(contents, torch.Tensor):
        contents = torch.full((), contents, device=buffer.device)
    contents = _narrowed(contents, buffer.dtype)
    if buffer.dtype.itemsize > 1:
        buffer[slots] = contents
    else:
        buffer.view(torch.uint8)[slots] = contents.view(torch.uint8)


def copy(buffer: torch.Tensor, to: torch.Tensor, of: torch.Tensor) -> None:
    """Copy the slots `of` `[n]` to the slots `to` `[n]`."""
    raw = buffer if buffer.dtype.itemsize > 1 else buffer.view(torch.uint8)
    raw[to] = raw[of]


def _narrowed(contents: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if dtype.itemsize == 1:
        # A key that was moved can be larger than what was read, and some 8-bit floats have no infinity to become.
        limit = torch.finfo(dtype).max
        contents = contents.float().clamp(-limit, limit)
    return contents.to(dtype)
