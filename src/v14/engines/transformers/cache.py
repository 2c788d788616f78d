"""The KV cache of a request with memory: every layer keeps every token, and spans can be placed into it.

Transformers' own sliding layers drop what their window has passed; an event is read off after generation, so here they
keep it and only show the window. Attention sees the same tensors as with the library's `DynamicCache`.
"""

import torch
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer

from v14.geometry import Geometry
from v14.types import Span


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
    """A cache of one sequence for a model of plain attention layers."""

    def __init__(self, geometry: Geometry) -> None:
        windows = [layer.window for layer in geometry.layers]
        super().__init__(
            layers=[
                DynamicLayer() if window is None else KeepingSlidingLayer(sliding_window=window) for window in windows
            ]
        )

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        surplus = self.get_seq_length() - length
        if surplus > 0:
            for layer in self.layers:
                layer.crop(-surplus)

    def append(self, span: Span, device: torch.device, dtype: torch.dtype) -> None:
        """Place a span behind what is cached; its position must be the cache's length, or `ValueError` is raised."""
        if span.position != self.get_seq_length():
            raise ValueError(f"a span built for position {span.position} cannot stand at {self.get_seq_length()}")
        for layer, keys, values in zip(self.layers, span.keys, span.values, strict=True):
            where = layer.keys.device if layer.is_initialized else device
            layer.update(*(part.transpose(0, 1)[None].to(where, dtype) for part in (keys, values)))

    def read(self, start: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values `[L, T, H, D]` of positions [start, end) on the CPU; `ValueError` if not all are cached."""
        if not 0 <= start < end <= self.get_seq_length():
            raise ValueError(f"positions {start} to {end} are not within the {self.get_seq_length()} cached")
        keys = torch.stack([layer.keys[0, :, start:end].transpose(0, 1).cpu() for layer in self.layers])
        values = torch.stack([layer.values[0, :, start:end].transpose(0, 1).cpu() for layer in self.layers])
        return keys, values
