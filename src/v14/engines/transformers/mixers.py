"""The recurrent layers of the library: what their convolution reads, and what an event does to their state.

Computed from the hidden states that enter a layer and its own weights; the layer's code is neither copied nor replaced.
Shapes as in `v14.types`; `hidden` is `[T, hidden size]`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.functional import conv1d, softplus
from transformers.activations import ACT2FN

from v14.engram import Factors, gated_delta, mamba2
from v14.geometry import RecurrentKind


class Mixer(ABC):
    """A recurrent layer of the library: what its convolution reads, and what an event does to its state."""

    projection: str
    """Name of the layer's linear projection to the convolution's inputs."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.index: int = module.layer_idx
        [self.conv] = [child for child in module.children() if isinstance(child, nn.Conv1d)]

    @property
    def blank(self) -> torch.Tensor:
        """A hidden state of zeros, `[1, hidden size]`."""
        weight: torch.Tensor = getattr(self.module, self.projection).weight
        return weight.new_zeros(1, weight.shape[1])

    @abstractmethod
    def inputs(self, hidden: torch.Tensor) -> torch.Tensor:
        """The inputs `[T, C]` of the convolution."""

    @abstractmethod
    def factors(self, hidden: torch.Tensor, inputs: torch.Tensor) -> Factors | None:
        """What the tokens do to the state; inputs `[W - 1 + T, C]` are theirs and those in front of them. None for a
        layer without state."""

    def convolved(self, inputs: torch.Tensor) -> torch.Tensor:
        """The convolution's outputs `[T, C]` for the last T of the inputs `[W - 1 + T, C]`."""
        weight, bias = self.conv.weight, self.conv.bias
        out = conv1d(inputs.mT[None].to(weight.dtype), weight, bias, groups=inputs.shape[1])[0].mT
        activated: torch.Tensor = ACT2FN[self.module.activation](out)
        return activated


class GatedDelta(Mixer):
    """Gated DeltaNet as Qwen3.5 has it; query, key and value heads pass the convolution together."""

    projection = "in_proj_qkv"

    def inputs(self, hidden: torch.Tensor) -> torch.Tensor:
        """See `Mixer`."""
        out: torch.Tensor = self.module.in_proj_qkv(hidden)
        return out

    def factors(self, hidden: torch.Tensor, inputs: torch.Tensor) -> Factors:
        """See `Mixer`."""
        layer = self.module
        _, keys, values = self.convolved(inputs).split([layer.key_dim, layer.key_dim, layer.value_dim], dim=-1)
        step = softplus(layer.in_proj_a(hidden).float() + layer.dt_bias)
        return gated_delta.factors(
            gated_delta.normalise(keys.unflatten(-1, (layer.num_k_heads, -1))),
            values.unflatten(-1, (layer.num_v_heads, -1)),
            -layer.A_log.float().exp() * step,
            layer.in_proj_b(hidden).sigmoid(),
        )


class Mamba2(Mixer):
    """Mamba2 as Nemotron-H has it; x, B and C pass the convolution together."""

    projection = "in_proj"

    def _projected(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        layer = self.module
        sizes = [layer.intermediate_size, layer.conv_dim, layer.num_heads]
        _, inputs, step = layer.in_proj(hidden).split(sizes, dim=-1)
        return inputs, step

    def inputs(self, hidden: torch.Tensor) -> torch.Tensor:
        """See `Mixer`."""
        return self._projected(hidden)[0]

    def factors(self, hidden: torch.Tensor, inputs: torch.Tensor) -> Factors:
        """See `Mixer`. Steps keep the layer's lower limit, which the library observes where it reads several tokens at
        once and not where it writes one: an engram is what reading the event does."""
        layer = self.module
        groups = layer.n_groups * layer.ssm_state_size
        x, b, _ = self.convolved(inputs).split([layer.intermediate_size, groups, groups], dim=-1)
        step = softplus(self._projected(hidden)[1] + layer.dt_bias).clamp(*layer.time_step_limit)
        return mamba2.factors(
            x.unflatten(-1, (layer.num_heads, -1)),
            b.unflatten(-1, (layer.n_groups, -1)),
            step,
            -layer.A_log.float().exp(),
        )


class ShortConv(Mixer):
    """The gated short convolution of LFM2: no state behind it."""

    projection = "in_proj"

    def inputs(self, hidden: torch.Tensor) -> torch.Tensor:
        """See `Mixer`."""
        gate, _, x = self.module.in_proj(hidden).chunk(3, dim=-1)
        return gate * x

    def factors(self, hidden: torch.Tensor, inputs: torch.Tensor) -> None:
        """See `Mixer`."""
        return None


MIXERS: Mapping[RecurrentKind, type[Mixer]] = {"gated_delta": GatedDelta, "mamba2": Mamba2, "conv": ShortConv}
