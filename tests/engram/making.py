"""Random events of recurrent layers, with the inputs that their factors come from."""

from dataclasses import dataclass

import torch

from v14.engram import gated_delta, mamba2, naive
from v14.engram.factors import Factors, conv_tail, stack
from v14.geometry import RecurrentStack
from v14.types import Engram


@dataclass(frozen=True, kw_only=True, eq=False)
class Read:
    """What T tokens gave one layer: the arguments of its state update, and its convolution's inputs `[T, C]`."""

    kind: str
    inputs: tuple[torch.Tensor, ...]
    conv: torch.Tensor

    def cut(self, start: int, end: int) -> "Read":
        """The same tokens from `start` to `end`."""
        by_token = self.inputs if self.kind == "gated_delta" else self.inputs[:3]
        cut = tuple(tensor[start:end] for tensor in by_token) + self.inputs[len(by_token) :]
        return Read(kind=self.kind, inputs=cut, conv=self.conv[start:end])

    def factors(self) -> Factors:
        return (gated_delta if self.kind == "gated_delta" else mamba2).factors(*self.inputs)

    def state(self, state: torch.Tensor) -> torch.Tensor:
        """The state behind the tokens, token by token."""
        return (naive.gated_delta if self.kind == "gated_delta" else naive.mamba2)(state, *self.inputs)

    def affine(self) -> tuple[torch.Tensor, torch.Tensor]:
        return (naive.gated_delta_affine if self.kind == "gated_delta" else naive.mamba2_affine)(*self.inputs)


def stack_of(kind: str, *, layers=2, heads=4, key_dim=5, value_dim=7, channels=3, width=4) -> RecurrentStack:
    return RecurrentStack(
        kind=kind,
        indices=tuple(range(layers)),
        num_heads=heads,
        key_dim=key_dim,
        value_dim=value_dim,
        conv_channels=channels,
        conv_width=width,
    )


def read(shape: RecurrentStack, num_tokens: int, seed: int, *, groups=2, strength=1.0) -> list[Read]:
    """Random inputs of each layer; log decays are about `-strength` a token."""
    random = torch.Generator().manual_seed(seed)

    def noise(*size):
        return torch.randn(*size, generator=random)

    def uniform(*size):
        return torch.rand(*size, generator=random)

    layers = []
    for _ in shape.indices:
        by_head = num_tokens, shape.num_heads
        keys = noise(num_tokens, groups, shape.key_dim)
        values = noise(*by_head, shape.value_dim)
        if shape.kind == "gated_delta":
            inputs = gated_delta.normalise(keys), values, -strength * uniform(*by_head), uniform(*by_head)
        else:
            inputs = values, keys, uniform(*by_head), -strength * (0.1 + uniform(shape.num_heads))
        layers.append(Read(kind=shape.kind, inputs=inputs, conv=noise(num_tokens, shape.conv_channels)))
    return layers


def engram_of(layers: list[Read], width: int) -> Engram:
    return stack([layer.factors() for layer in layers], [conv_tail(layer.conv, width) for layer in layers])


def states_of(shape: RecurrentStack, seed: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(len(shape.indices), shape.num_heads, shape.value_dim, shape.key_dim, generator=random)
