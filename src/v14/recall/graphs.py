"""Votes on a GPU as CUDA graphs: a vote is a dozen small steps, and beginning them takes longer than most of them do.

A graph reads what stands where its tensors stood when it was made. New events go into room that pages have, so a graph
serves until a page grows; then another is made, at the second vote. Cues are padded to a few lengths. What a graph
cannot be made of is done step by step, as on a CPU.
"""

import logging
from collections.abc import Callable, Hashable
from typing import NamedTuple

import torch

from v14.kernels.votes import Asked
from v14.recall.asking import Asking
from v14.types import Cue

logger = logging.getLogger("v14")

LEAST_TOKENS = 32
"""Cues are padded to this length or a power of two above it, which kernels do anyway."""


class Cast(NamedTuple):
    """Votes `[n]` fp32, and the places `[n]` int64 of the events that they are of; None for all, page by page."""

    values: torch.Tensor
    places: torch.Tensor | None


class Graphs:
    """The graphs of one index's votes. To be used on one stream that is not the default one."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._state: Hashable = None
        self._graphs: dict[int, _Graph | None] = {}
        self._fails = False

    def __call__(self, cast: Callable[[Asked], Cast], cue: Cue, state: Hashable) -> Cast:
        """The votes for a cue. `cast` is what is done with it on the device, without waiting or copies from the CPU;
        `state` is another one whenever a tensor that `cast` reads is. It is not kept: it is the index's, which
        would not be freed before a garbage collection."""
        if self._fails or cue.queries.is_cuda:
            return cast(self._asking.plain(cue))
        if state != self._state:
            self._graphs, self._state = {}, state
        size = max(LEAST_TOKENS, 1 << (cue.queries.shape[1] - 1).bit_length())
        if size not in self._graphs:
            # What compiles or allocates for good does so now. A page that is growing is never worth a graph.
            self._graphs[size] = None
            return cast(self._asking.plain(cue))
        graph = self._graphs[size]
        if graph is None:
            try:
                graph = self._graphs[size] = _Graph(cast, self._asking, size)
            except RuntimeError:
                logger.warning("votes go on without CUDA graphs, which cannot be made here", exc_info=True)
                self._fails = True
                return cast(self._asking.plain(cue))
        return graph(cue)


class _Graph:
    """One graph, the memory that its cues come in, and where its votes come out."""

    def __init__(self, cast: Callable[[Asked], Cast], asking: Asking, size: int) -> None:
        self._inlet = asking.inlet(size)
        self._graph = torch.cuda.CUDAGraph()
        # Of other threads, only what they do on this stream matters.
        self._graph.capture_begin(capture_error_mode="thread_local")
        try:
            self._cast = cast(self._inlet.plain())
        finally:
            self._graph.capture_end()
        self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def __call__(self, cue: Cue) -> Cast:
        # The last cue may still be on its way to the device.
        self._done.synchronize()
        self._inlet.fill(cue)
        self._graph.replay()
        self._done.record()
        values, places = self._cast
        return Cast(values.clone(), None if places is None else places.clone())
