"""Copying keys and values out of the engine's pool without waiting for the device.

    scheduler's thread   gather, turn the keys to the start of their events
    background thread    copy to the CPU, cut into traces

What is gathered is queued on the scheduler's stream before the slots are given back, and every later forward pass waits
for that stream: nothing can be written over what is still to be read. Memory that the device copies to has to be
pinned, which takes half a second for the first long document, so it is gathered on the device as long as there is
plenty of room, and copied in the background.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch

from v14.engines.sglang.runtime import Runtime
from v14.engines.sglang.slots import read, wide
from v14.engines.sglang.transfer import to_device
from v14.geometry import Geometry
from v14.recall.voters import Voters
from v14.recall.votes import voter_keys
from v14.reinstate.rotation import rotate
from v14.types import Engram, Trace

ROOM_SHARE = 1 / 8
"""Of the device's free memory, what gathered keys and values may take for a moment."""

Run = tuple[int, int]
"""Start and end of an event, as positions in a request's sequence."""


class Harvest:
    """The keys and values of some runs of a sequence, on their way to the CPU."""

    def __init__(
        self, pool: Any, geometry: Geometry, row: torch.Tensor, runs: Sequence[Run], voters: Voters | None = None
    ) -> None:
        """`row` holds the KV slots of the sequence; `runs` ascend and do not overlap.

        With `voters` what they read of the runs is made on the device as well (`views`).
        """
        self._lengths = [end - start for start, end in runs]
        self._bounds = list(accumulate(self._lengths, initial=0))
        starts, lengths = torch.tensor([start for start, _ in runs]), torch.tensor(self._lengths)
        within = torch.arange(self._bounds[-1]) - torch.tensor(self._bounds[:-1]).repeat_interleave(lengths)
        begins = starts.repeat_interleave(lengths)
        positions, deltas = to_device(begins + within, row.device), to_device(-begins, row.device)
        slots = row[positions]
        first = pool.get_key_buffer(geometry.layers[0].index)
        shape = len(geometry.layers), len(slots), *first.shape[1:]
        # Traces are views of two tensors, however many events there are.
        self._keys, self._values = _room(shape, wide(first.dtype), row.device)
        voting = {}
        for place, layer in enumerate(geometry.layers):
            keys = rotate(read(pool.get_key_buffer(layer.index), slots), layer.rotary, deltas)
            self._keys[place].copy_(keys, non_blocking=True)
            self._values[place].copy_(read(pool.get_value_buffer(layer.index), slots), non_blocking=True)
            if voters is not None and layer.index in voters.layers:
                voting[layer.index] = keys
        self._views: torch.Tensor | None = None
        if voters is not None:
            self._views = voter_keys([voting[layer] for layer in voters.layers], geometry, voters, self._lengths)
        self._copied = torch.cuda.Event() if row.is_cuda else None
        if self._copied is not None:
            self._copied.record()

    def parts(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values `[L, T, H, D]` of all runs, one behind the other."""
        self.wait()
        return self._keys, self._values

    def replace(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put other heads in place of those of `parts`."""
        self._keys, self._values = keys, values

    @property
    def dtype(self) -> torch.dtype:
        """That of the pool, or bfloat16 where the pool has 8-bit floats."""
        return self._keys.dtype

    def wait(self) -> None:
        """Until everything is on the CPU. Not to be called from two threads at once."""
        if self._copied is not None:
            self._copied.synchronize()
        if self._keys.is_cuda:
            self._keys, self._values = _on_cpu(self._keys), _on_cpu(self._values)

    def trace(self, index: int, engram: Engram | None) -> Trace:
        """The trace of a run; call `wait` first."""
        part = slice(self._bounds[index], self._bounds[index + 1])
        return Trace(keys=self._keys[:, part], values=self._values[:, part], engram=engram)

    def views(self) -> list[torch.Tensor] | None:
        """What voters read of each run, `[U, T, D]` fp32 on the device; None if not asked for. Call `wait` first."""
        return None if self._views is None else list(self._views.split(self._lengths, dim=1))


def _room(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for keys and values: on the device where it has plenty, else on the CPU, pinned."""
    if device.type != "cuda":
        return torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)
    num_bytes = 2 * math.prod(shape) * dtype.itemsize
    free, _ = torch.cuda.mem_get_info(device)
    if num_bytes <= ROOM_SHARE * free:
        return torch.empty(shape, dtype=dtype, device=device), torch.empty(shape, dtype=dtype, device=device)
    return torch.empty(shape, dtype=dtype, pin_memory=True), torch.empty(shape, dtype=dtype, pin_memory=True)


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of what is computed already, on a stream of this thread's own; it is there on return."""
    copied = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    stream = torch.cuda.Stream(tensor.device)
    with torch.cuda.stream(stream):
        copied.copy_(tensor, non_blocking=True)
    stream.synchronize()
    return copied


def harvested(engine: Runtime, row: torch.Tensor, runs: Sequence[Run]) -> Harvest | None:
    """Copy keys and values off the slots `row`, of all heads; None on other ranks than the first."""
    profile = engine.memory.profile
    if engine.ranks.size == 1:
        # On a GPU making what voters read costs nothing; otherwise it is made in the background, from the traces.
        return Harvest(engine.kv_pool, profile.geometry, row, runs, profile.voters if row.is_cuda else None)
    made: list[Harvest] = []

    def mine() -> tuple[torch.Tensor, torch.Tensor]:
        made.append(Harvest(engine.kv_pool, profile.geometry, row, runs))
        return made[0].parts()

    parts = engine.ranks.gathered(mine)
    if parts is None:
        return None
    keys, values = (engine.shards.joined(of_all) for of_all in zip(*parts, strict=True))
    made[0].replace(keys, values)
    return made[0]
