"""Event by event, through the factors of `v14.engram`: what a CPU uses."""

from collections.abc import Iterator

import torch

from v14.engram import Factors, gated_delta, mamba2
from v14.kernels.engram import Events


def gated_delta_events(
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    bounds: torch.Tensor,
    *,
    normalise: bool = False,
) -> Events:
    """See `v14.kernels.engram.gated_delta_events`."""
    if normalise:
        k = gated_delta.normalise(k)
    events = [gated_delta.factors(k[cut], v[cut], g[cut], beta[cut]) for cut in _cuts(bounds)]
    erase = torch.stack([event.erase_left @ event.erase_right.mT for event in events])
    return Events(_decay(events), erase, _write(events))


def mamba2_events(x: torch.Tensor, b: torch.Tensor, dt: torch.Tensor, a: torch.Tensor, bounds: torch.Tensor) -> Events:
    """See `v14.kernels.engram.mamba2_events`."""
    events = [mamba2.factors(x[cut], b[cut], dt[cut], a) for cut in _cuts(bounds)]
    return Events(_decay(events), None, _write(events))


def _cuts(bounds: torch.Tensor) -> Iterator[slice]:
    edges = bounds.tolist()
    yield from map(slice, edges[:-1], edges[1:])


def _decay(events: list[Factors]) -> torch.Tensor:
    return torch.stack([event.decay for event in events])


def _write(events: list[Factors]) -> torch.Tensor:
    return torch.stack([event.write_values @ event.write_keys.mT for event in events])
