"""Copying keys and values out of the engine's pool without waiting for the device.

    scheduler's thread   gather, turn the keys to the start of their events, start the copies to the CPU
    background thread    wait for the copies, cut them into traces

The copies are queued on the scheduler's stream before the slots are given back, and every later forward pass waits for
that stream: nothing can be written over what is still to be read.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch

from v14.engines.sglang.slots import read
from v14.engines.sglang.transfer import to_device
from v14.geometry import Geometry
from v14.reinstate.rotation import rotate
from v14.types import Engram, Trace

Run = tuple[int, int]
"""Start and end of an event, as positions in a request's sequence."""


class Harvest:
    """The keys and values of some runs of a sequence, on their way to the CPU."""

    def __init__(self, pool: Any, geometry: Geometry, row: torch.Tensor, runs: Sequence[Run]) -> None:
        """`row` holds the KV slots of the sequence; `runs` ascend and do not overlap."""
        self._bounds = list(accumulate((end - start for start, end in runs), initial=0))
        starts = torch.tensor([start for start, _ in runs])
        lengths = torch.tensor([end - start for start, end in runs])
        within = torch.arange(self._bounds[-1]) - torch.tensor(self._bounds[:-1]).repeat_interleave(lengths)
        begins = starts.repeat_interleave(lengths)
        positions, deltas = to_device(begins + within, row.device), to_device(-begins, row.device)
        slots = row[positions]
        self._keys, self._values = [], []
        for layer in geometry.layers:
            keys = rotate(read(pool.get_key_buffer(layer.index), slots), layer.rotary, deltas)
            self._keys.append(keys.to("cpu", non_blocking=True))
            self._values.append(read(pool.get_value_buffer(layer.index), slots).to("cpu", non_blocking=True))
        self._copied = torch.cuda.Event() if row.is_cuda else None
        if self._copied is not None:
            self._copied.record()

    def parts(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values `[L, T, H, D]` of all runs, one behind the other."""
        self.wait()
        return torch.stack(self._keys), torch.stack(self._values)

    def replace(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put other heads in place of those of `parts`."""
        self._keys, self._values = list(keys), list(values)

    @property
    def dtype(self) -> torch.dtype:
        """That of the pool, or bfloat16 where the pool has 8-bit floats."""
        return self._keys[0].dtype

    def wait(self) -> None:
        """Until everything is on the CPU."""
        if self._copied is not None:
            self._copied.synchronize()

    def trace(self, index: int, engram: Engram | None) -> Trace:
        """The trace of a run; call `wait` first."""
        part = slice(self._bounds[index], self._bounds[index + 1])
        keys, values = (torch.stack([layer[part] for layer in layers]) for layers in (self._keys, self._values))
        return Trace(keys=keys, values=values, engram=engram)
