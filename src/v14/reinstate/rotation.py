"""Moving keys: a key rotated to one position becomes, by one rotation, the same key at another.

RoPE turns pair i of a head by position · inv_freq[i], so moving by `delta` turns by delta · inv_freq[i] whatever the
position was (Su et al., RoFormer, arXiv 2104.09864, eq. 16). Computed in fp32, angles in fp64.
"""

from functools import cache

import torch

from v14.geometry import Geometry, Rotary


def rotate(x: torch.Tensor, rotary: Rotary | None, delta: int | torch.Tensor) -> torch.Tensor:
    """Keys or queries `[..., D]` moved by `delta` positions (negative: towards the start); dtype kept.

    `delta` may be `[T]` for x `[T, H, D]`, which moves every token by its own.
    """
    if rotary is None or (isinstance(delta, int) and delta == 0):
        return x
    angle = _inv_freq(rotary, x.device) * (delta if isinstance(delta, int) else delta[:, None, None])
    cos, sin = angle.cos().float(), angle.sin().float()
    half = len(rotary.inv_freq)
    first, second, rest = x[..., :half].float(), x[..., half : 2 * half].float(), x[..., 2 * half :]
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)
    return torch.cat([turned, rest], dim=-1) if rest.shape[-1] else turned


@cache
def _inv_freq(rotary: Rotary, device: torch.device) -> torch.Tensor:
    """On the device: making it there each time would wait for whatever the device is doing."""
    return torch.tensor(rotary.inv_freq, dtype=torch.float64, device=device)


def move_keys(keys: torch.Tensor, geometry: Geometry, delta: int) -> torch.Tensor:
    """Keys `[L, T, H, D]` of all attention layers moved by `delta` positions."""
    if delta == 0:
        return keys
    return torch.stack([rotate(k, layer.rotary, delta) for k, layer in zip(keys, geometry.layers, strict=True)])
