"""Small tensors on their way to the device, which nothing waits for."""

import torch


def to_device(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """A CPU tensor on `device`, in the order of the current stream; a copy of pageable memory would wait for it."""
    if torch.device(device).type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
