"""Recurrent layers of SGLang's models, and the pool that their states stand in.

The pool and the memory agree about states, which is written down here once:

    temporal   [R, slots, N, P, K]     a slot's states [R, N, P, K], fp32 or the narrower `--mamba-ssm-dtype`
    conv[0]    [R, slots, C, W - 1]    its convolutions' last inputs [R, C, W - 1], the oldest first

Shapes as in `v14.types`; n are the tokens that a forward pass reads of all its requests, `rows` some of them.
"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch.nn.functional import conv1d, silu, softplus

from v14.geometry import Geometry, RecurrentStack
from v14.kernels.engram import Events, gated_delta_events, mamba2_events
from v14.types import Engram


class StatePool:
    """The engine's recurrent states."""

    def __init__(self, req_to_token_pool: Any, stack: RecurrentStack) -> None:
        self._pool = req_to_token_pool
        self.stack = stack

    @property
    def conv(self) -> torch.Tensor:
        """Inputs of the convolutions of all slots, `[R, slots, C, W - 1]`."""
        inputs: torch.Tensor = self._pool.mamba_pool.mamba_cache.conv[0]
        return inputs

    @property
    def temporal(self) -> torch.Tensor:
        """States of all slots, `[R, slots, N, P, K]`; without elements where layers have none."""
        states: torch.Tensor = self._pool.mamba_pool.mamba_cache.temporal
        return states if self.stack.num_heads else states.new_empty(*states.shape[:2], 0, 0, 0)

    def slots(self, req_pool_indices: torch.Tensor) -> torch.Tensor:
        """Slots of running requests, on the device."""
        found: torch.Tensor = self._pool.get_mamba_indices(req_pool_indices)
        return found.long()

    def read(self, slot: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """States `[R, N, P, K]` fp32 and inputs `[R, C, W - 1]` of a slot `[1]`; of nothing read yet for None."""
        if slot is None:
            return torch.zeros_like(self.temporal[:, 0], dtype=torch.float32), torch.zeros_like(self.conv[:, 0])
        return self.temporal[:, slot].squeeze(1).float(), self.conv[:, slot].squeeze(1)

    def write(self, slot: torch.Tensor, states: torch.Tensor, inputs: torch.Tensor) -> None:
        """Fill a slot `[1]` of one's own."""
        self.temporal[:, slot] = states[:, None].to(self.temporal)
        self.conv[:, slot] = inputs[:, None].to(self.conv)

    def on_device(self, engram: Engram | None) -> Engram | None:
        """An engram beside the states."""
        if engram is None or self.conv.device.type == "cpu":
            return engram
        return Engram(**{name: tensor.to(self.conv.device) for name, tensor in engram.tensors().items()})

    def take(self, tree_cache: Any, evict: Any) -> torch.Tensor | None:
        """A free slot `[1]`, after `evict` if need be; None if there is no room."""
        allocator = self._pool.mamba_allocator
        slot = allocator.alloc(1)
        if slot is None:
            tree_cache.evict(evict)
            slot = allocator.alloc(1)
        # The allocator hands out views of its free list.
        return None if slot is None else slot.clone()

    @property
    def num_slots(self) -> int:
        """Slots of the pool, free or not."""
        return self.conv.shape[1]

    def clear_free(self) -> None:
        """Zero the slots that are free."""
        allocator = self._pool.mamba_allocator
        free = allocator.alloc(allocator.available_size())
        if free is not None:
            free = free.clone()
            self.temporal[:, free] = 0
            self.conv[:, free] = 0
            allocator.free(free)

    def give_back(self, slot: torch.Tensor) -> None:
        """Free a slot that nobody else has."""
        self._pool.mamba_allocator.free(slot)


def refused_states(pool: Any, geometry: Geometry) -> list[str]:
    """Why the engine's recurrent states cannot be served; empty when they can, or where there are none."""
    stack = geometry.recurrent
    if stack is None or not geometry.placeable:
        return []
    found = getattr(pool, "mamba_map", None)
    if found is None or tuple(sorted(found)) != stack.indices:
        return [f"recurrent layers {sorted(found or ())}: the V14 directory names {list(stack.indices)}"]
    states = pool.mamba_pool.mamba_cache
    found_shapes = [*(tuple(inputs.shape[2:]) for inputs in states.conv)]
    expected: list[tuple[int, ...]] = [(stack.conv_channels, stack.conv_width - 1)]
    if stack.num_heads:
        found_shapes.append(tuple(states.temporal.shape[2:]))
        expected.append((stack.num_heads, stack.value_dim, stack.key_dim))
    if found_shapes != expected:
        return [f"recurrent states of shapes {found_shapes}: not served with memory, which expects {expected}"]
    return []


class LayerRead(ABC):
    """What one recurrent layer is about to read, and its weights."""

    weight: torch.Tensor
    """Of the convolution, `[C, W]`."""
    bias: torch.Tensor | None

    @abstractmethod
    def inputs(self, rows: slice) -> torch.Tensor:
        """The convolution's inputs `[t, C]` of some rows."""

    def convolved(self, seen: torch.Tensor) -> torch.Tensor:
        """The convolution's outputs `[t, C]` behind SiLU, for inputs `[W - 1 + t, C]`."""
        out = conv1d(seen.mT[None].to(self.weight.dtype), self.weight[:, None], self.bias, groups=seen.shape[1])
        return silu(out[0].mT)

    @abstractmethod
    def events(self, rows: slice, seen: torch.Tensor, bounds: torch.Tensor) -> Events | None:
        """What runs of the rows do to the states: see `v14.kernels.engram`. None for a layer without states."""


class GatedDeltaRead(LayerRead):
    """Gated DeltaNet: SGLang's `RadixLinearAttention` and what goes into it."""

    def __init__(self, layer: Any, mixed_qkv: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        self._layer, self._mixed, self._a, self._b = layer, mixed_qkv, a, b
        self.weight, self.bias = layer.conv_weights, layer.bias

    def inputs(self, rows: slice) -> torch.Tensor:
        """See `LayerRead`."""
        return self._mixed[rows]

    def events(self, rows: slice, seen: torch.Tensor, bounds: torch.Tensor) -> Events:
        """See `LayerRead`."""
        layer = self._layer
        _, keys, values = self.convolved(seen).split([layer.q_dim, layer.k_dim, layer.v_dim], dim=-1)
        steps = softplus(self._a[rows].float() + layer.dt_bias.float())
        return gated_delta_events(
            keys.unflatten(-1, (layer.num_k_heads, -1)),
            values.unflatten(-1, (layer.num_v_heads, -1)),
            -layer.A_log.float().exp() * steps,
            self._b[rows].sigmoid(),
            bounds,
            normalise=True,
        )


class Mamba2Read(LayerRead):
    """Mamba2: SGLang's `MambaMixer2` and its hidden states, projected a second time for the rows that are asked for."""

    def __init__(self, mixer: Any, hidden: torch.Tensor) -> None:
        self._mixer, self._hidden = mixer, hidden
        self.weight, self.bias = mixer.conv1d.weight.flatten(1), mixer.conv1d.bias

    def _projected(self, rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
        mixer = self._mixer
        projected, _ = mixer.in_proj(self._hidden[rows])
        _, inputs, steps = projected.split([mixer.intermediate_size, mixer.conv_dim, mixer.num_heads], dim=-1)
        return inputs, steps

    def inputs(self, rows: slice) -> torch.Tensor:
        """See `LayerRead`."""
        return self._projected(rows)[0]

    def events(self, rows: slice, seen: torch.Tensor, bounds: torch.Tensor) -> Events:
        """See `LayerRead`."""
        mixer = self._mixer
        groups = mixer.groups_ssm_state_size
        x, b, _ = self.convolved(seen).split([mixer.intermediate_size, groups, groups], dim=-1)
        return mamba2_events(
            x.unflatten(-1, (mixer.num_heads, -1)),
            b.unflatten(-1, (mixer.n_groups, -1)),
            softplus(self._projected(rows)[1].float() + mixer.dt_bias.float()),
            mixer.A.float(),
            bounds,
        )


class ShortConvRead(LayerRead):
    """The gated short convolution of LFM2: no state behind it."""

    def __init__(self, layer: Any, hidden: torch.Tensor) -> None:
        self._layer, self._hidden = layer, hidden
        self.weight, self.bias = layer.conv_weight, layer.conv_bias

    def inputs(self, rows: slice) -> torch.Tensor:
        """See `LayerRead`."""
        gate, _, x = self._layer.in_proj(self._hidden[rows])[0].chunk(3, dim=-1)
        return gate * x

    def events(self, rows: slice, seen: torch.Tensor, bounds: torch.Tensor) -> None:
        """See `LayerRead`."""
        return None
