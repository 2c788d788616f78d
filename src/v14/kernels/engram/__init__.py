"""What every event of a prefill did to the states of one layer, all events in one pass.

naive.py      token by token
factored.py   event by event, through the factors of `v14.engram`
triton.py     all events at once, on a GPU

Shapes: T tokens of any number of sequences one behind the other, E events, N heads, G groups of heads that share keys
(G divides N), K key and P value dimension. `bounds` `[E + 1]` int32, on the tokens' device: event e is the tokens
[bounds[e], bounds[e + 1]), empty ones and tokens in front of the first or behind the last event allowed.
"""

from typing import NamedTuple

import torch

from v14.engram import Factors


class Events(NamedTuple):
    """S ↦ S·A + B of each event and head: A = decay · (I − erase), B = write. All fp32.

    decay: `[E, N]`; erase: `[E, N, K, K]`, None where A is a scalar; write: `[E, N, P, K]`.
    """

    decay: torch.Tensor
    erase: torch.Tensor | None
    write: torch.Tensor

    def factors(self, event: int) -> Factors:
        """One event as factors of full rank, each matrix beside an identity; `compress` cuts them."""
        write = self.write[event]
        eye = torch.eye(write.shape[-1], device=write.device).expand(write.shape[0], -1, -1)
        left, right = (eye[..., :0], eye[..., :0]) if self.erase is None else (self.erase[event], eye)
        return Factors(self.decay[event], left, right, write, eye)


def gated_delta_events(
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    bounds: torch.Tensor,
    *,
    normalise: bool = False,
) -> Events:
    """The events of a gated delta rule: k `[T, G, K]` (length one, or made so where `normalise`), v `[T, N, P]`, log
    decay g and beta `[T, N]`."""
    if k.is_cuda:
        from v14.kernels.engram import triton  # not everybody who has no GPU has Triton

        return triton.gated_delta_events(k, v, g, beta, bounds, normalise=normalise)
    from v14.kernels.engram import factored

    return factored.gated_delta_events(k, v, g, beta, bounds, normalise=normalise)


def mamba2_events(x: torch.Tensor, b: torch.Tensor, dt: torch.Tensor, a: torch.Tensor, bounds: torch.Tensor) -> Events:
    """The events of Mamba2: x `[T, N, P]`, b (the paper's B) `[T, G, K]`, dt `[T, N]` behind its bias and softplus, a
    (A, negative) `[N]`."""
    if x.is_cuda:
        from v14.kernels.engram import triton

        return triton.mamba2_events(x, b, dt, a, bounds)
    from v14.kernels.engram import factored

    return factored.mamba2_events(x, b, dt, a, bounds)
