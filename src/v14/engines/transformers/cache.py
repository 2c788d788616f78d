"""The cache of a request with memory: attention layers keep every token, spans can be placed, and recurrent states can
go back to where they were noted.

Its layers are the library's own `DynamicCache`'s, and attention sees the same tensors. Only sliding layers differ:
Transformers' drop what their window has passed; an event is read off after generation, so here they keep it and only
show the window.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from transformers.cache_utils import (
    Cache,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionCacheLayerMixin,
)

from v14.engines.transformers.recording import Recording
from v14.engram import advance
from v14.geometry import Geometry
from v14.types import Engram, Span

Parts = Literal["kv", "engram", "both"]
"""What of a span is reinstated: its keys and values, its effect on recurrent states, or both as a request gets them."""


class KeepingSlidingLayer(DynamicSlidingWindowLayer):
    """A sliding layer that keeps all keys and values `[1, H, P, D]` and returns those its queries may see."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append; return the last `window - 1` tokens before the new ones, and the new ones."""
        keys, values = DynamicLayer.update(self, key_states, value_states)
        self.cumulative_length = keys.shape[-2]
        num_visible = self.sliding_window - 1 + key_states.shape[-2]
        return keys[:, :, -num_visible:], values[:, :, -num_visible:]

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last `-tokens_to_remove` tokens (a negative number, as everywhere in Transformers)."""
        DynamicLayer.crop(self, tokens_to_remove)
        self.cumulative_length = self.keys.shape[-2]


class MemoryCache(Cache):
    """A cache of one sequence. `config` is the model's, `recording` notes what recurrent layers read, if wanted."""

    position_ids: torch.Tensor
    """Set by Qwen4-Exp, and by no other model: the positions of all tokens cached."""

    def __init__(self, geometry: Geometry, config: Any, recording: Recording | None = None) -> None:
        layers = DynamicCache(config=config).layers
        super().__init__(
            layers=[
                KeepingSlidingLayer(layer.sliding_window) if isinstance(layer, DynamicSlidingWindowLayer) else layer
                for layer in layers
            ]
        )
        self.recording = recording
        self._geometry = geometry
        self._checkpoints: dict[int, list[list[torch.Tensor | None]]] = {}

    @property
    def has_states(self) -> bool:
        """Whether there are recurrent layers, so that truncating needs checkpoints."""
        return self._geometry.recurrent is not None

    def checkpoint(self) -> None:
        """Note the recurrent states behind the tokens cached now, for `truncate`."""
        if self.has_states:
            self._checkpoints[self.get_seq_length()] = [
                [None if state is None else state.clone() for state in _states(layer)] for layer in self._recurrent()
            ]

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens, also after an `append` that failed on the way. With recurrent layers there
        must be a checkpoint there, or `ValueError` is raised; the beginning needs none. Checkpoints are used up."""
        if length == 0:
            for layer in self._recurrent():
                layer.reset()
        elif length in self._checkpoints:
            for layer, noted in zip(self._recurrent(), self._checkpoints[length], strict=True):
                _restore(layer, noted)
        elif self.has_states and length != self.get_seq_length():
            raise ValueError(f"no checkpoint at {length}, only at {sorted(self._checkpoints)}")
        for layer in self.layers:
            if isinstance(layer, DynamicLayer) and layer.get_seq_length() > length:
                layer.crop(length - layer.get_seq_length())
        self._checkpoints.clear()
        if self.recording is not None:
            self.recording.truncate(length)
        if hasattr(self, "position_ids"):
            self.position_ids = self.position_ids[..., :length]

    def append(self, span: Span, device: torch.device, dtype: torch.dtype, parts: Parts = "both") -> None:
        """Place a span behind what is cached; its position must be the cache's length, or `ValueError` is raised. The
        same where traces cannot be placed (`Geometry.placeable`).

        Events whose engram was not kept leave recurrent states as they are. With `parts="engram"` no tokens are placed:
        the cache grows by none.
        """
        if not self._geometry.placeable:
            raise ValueError("a trace is not all that an event leaves in this model; its events are read again")
        if span.position != self.get_seq_length():
            raise ValueError(f"a span built for position {span.position} cannot stand at {self.get_seq_length()}")
        if parts == "kv":
            span = replace(span, engrams=())
        kept = [engram for engram in span.engrams if engram is not None]
        if kept:
            self._advance(kept, device, dtype)
        if parts != "engram":
            for layer, keys, values in zip(self._attention(), span.keys, span.values, strict=True):
                where = layer.keys.device if layer.is_initialized else device
                layer.update(*(part.transpose(0, 1)[None].to(where, dtype) for part in (keys, values)))
        if self.recording is not None:
            num_tokens = 0 if parts == "engram" else len(span.token_ids)
            self.recording.place(num_tokens, self._conv_inputs(device, dtype))
        self._checkpoints.clear()

    def read(self, start: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values `[L, T, H, D]` of positions [start, end) on the CPU; `ValueError` if not all are cached."""
        if not 0 <= start < end <= self.get_seq_length():
            raise ValueError(f"positions {start} to {end} are not within the {self.get_seq_length()} cached")
        keys = torch.stack([layer.keys[0, :, start:end].transpose(0, 1).cpu() for layer in self._attention()])
        values = torch.stack([layer.values[0, :, start:end].transpose(0, 1).cpu() for layer in self._attention()])
        return keys, values

    def read_engram(self, start: int, end: int) -> Engram | None:
        """What positions [start, end) did to the recurrent states, at full rank; None where nothing is recorded."""
        return None if self.recording is None else self.recording.engram(start, end)

    def _advance(self, engrams: Sequence[Engram], device: torch.device, dtype: torch.dtype) -> None:
        """Recurrent states and convolution inputs behind events, from those in front of them."""
        stack = self._geometry.recurrent
        if stack is None:
            raise ValueError("a model without recurrent layers has no engrams")
        layers = [self.layers[index] for index in stack.indices]
        # The library keeps the states of its delta rule as [K, P].
        flipped = stack.kind == "gated_delta"
        states = torch.zeros(len(layers), stack.num_heads, stack.value_dim, stack.key_dim, device=device)
        for row, layer in enumerate(layers):
            if layer.is_recurrent_states_initialized[0]:
                state = layer.recurrent_states[0][0]
                states[row] = state.mT if flipped else state
        moved = [Engram(**{name: part.to(device) for name, part in each.tensors().items()}) for each in engrams]
        states, inputs = advance(states, self._conv_inputs(device, dtype), moved)
        for row, layer in enumerate(layers):
            where = layer.device or device
            layer.update_conv_state(inputs[row : row + 1].to(where), conv_kernel_size=stack.conv_width)
            if stack.num_heads:
                state = states[row : row + 1]
                layer.update_recurrent_state((state.mT.contiguous() if flipped else state).to(where))

    def _conv_inputs(self, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        """The inputs `[R, C, W - 1]` that the short convolutions will see in front of the next token."""
        stack = self._geometry.recurrent
        assert stack is not None
        inputs = torch.zeros(len(stack.indices), stack.conv_channels, stack.conv_width - 1, device=device, dtype=dtype)
        for row, index in enumerate(stack.indices):
            layer = self.layers[index]
            if layer.has_previous_state[0]:
                inputs[row] = layer.conv_states[0][0, :, 1 - stack.conv_width :]
        return inputs

    def _attention(self) -> list[Any]:
        return [self.layers[layer.index] for layer in self._geometry.layers]

    def _recurrent(self) -> list[Any]:
        return [layer for layer in self.layers if isinstance(layer, LinearAttentionCacheLayerMixin)]


def _states(layer: LinearAttentionCacheLayerMixin) -> list[torch.Tensor | None]:
    return [*layer.conv_states.values(), *layer.recurrent_states.values()]


def _restore(layer: LinearAttentionCacheLayerMixin, noted: Sequence[torch.Tensor | None]) -> None:
    """States as noted; none noted where there are some now means that the layer had not read anything yet."""
    for state, before in zip(_states(layer), noted, strict=True):
        if state is None:
            continue
        if before is None:
            layer.reset()
            return
        state.copy_(before)
