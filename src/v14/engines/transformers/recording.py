"""What recurrent layers were given to read, and the engrams of events from it.

A hook at the door of every recurrent layer notes the hidden states that enter it, in the cache of their sequence. So it
does not matter in how many forward passes a sequence was read, nor which of the layer's paths (chunks or single steps)
read it. All that an engram needs follows from these hidden states and the layer's own weights (`mixers.py`), and is
computed only for events that are stored.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import pad

from v14.engines.transformers.mixers import MIXERS, Mixer
from v14.engram import Factors, conv_tail, stack
from v14.errors import UnsupportedModelError
from v14.geometry import Geometry
from v14.types import Engram


class Recording:
    """The hidden states of one sequence at every recurrent layer, by position."""

    def __init__(self, mixers: Sequence[Mixer]) -> None:
        self._mixers = mixers
        self._hidden: dict[int, list[torch.Tensor]] = {mixer.index: [mixer.blank[:0]] for mixer in mixers}
        self._placed: list[tuple[int, int, torch.Tensor]] = []

    def note(self, layer_index: int, hidden: torch.Tensor) -> None:
        """Append what the layer is about to read."""
        self._hidden[layer_index].append(hidden.detach())

    def place(self, num_tokens: int, inputs: torch.Tensor) -> None:
        """Append tokens that are placed and not read; behind them the convolutions see `inputs`, `[R, C, W - 1]`."""
        for mixer in self._mixers:
            self._hidden[mixer.index].append(mixer.blank.expand(num_tokens, -1))
        end = self._length()
        self._placed.append((end - num_tokens, end, inputs.clone()))

    def truncate(self, length: int) -> None:
        """Keep the first `length` positions."""
        for index in self._hidden:
            self._hidden[index] = [self._whole(index)[:length]]
        self._placed = [placed for placed in self._placed if placed[1] <= length]

    def engram(self, start: int, end: int) -> Engram:
        """What positions [start, end) did to the recurrent states, at full rank, fp32, on the CPU.

        Raises `ValueError` for positions that were not read.
        """
        placed = any(start < until and begin < end for begin, until, _ in self._placed)
        if not 0 <= start < end <= self._length() or placed:
            raise ValueError(f"positions {start} to {end} were not read by the recurrent layers")
        factors, tails = [], []
        with torch.no_grad():
            for row, mixer in enumerate(self._mixers):
                width = mixer.conv.kernel_size[0]
                inputs = self._inputs(row, mixer, start, end, width - 1)
                layer = mixer.factors(self._whole(mixer.index)[start:end], inputs)
                if layer is not None:
                    factors.append(Factors(*(part.cpu() for part in layer)))
                tails.append(conv_tail(inputs[width - 1 :], width).cpu())
        return stack(factors, tails)

    def _inputs(self, row: int, mixer: Mixer, start: int, end: int, reach: int) -> torch.Tensor:
        """Inputs `[reach + T, C]` of the convolution of positions [start - reach, end): zeros in front of the sequence,
        and where tokens were placed what they left."""
        first = max(0, start - reach)
        inputs = mixer.inputs(self._whole(mixer.index)[first:end])
        for _, until, left in self._placed:
            begin = max(first, until - reach)
            if begin < until and until <= start:
                inputs[begin - first : until - first] = left[row, :, begin - until :].mT
        return pad(inputs, (0, 0, reach - (start - first), 0))

    def _whole(self, index: int) -> torch.Tensor:
        pieces = self._hidden[index]
        if len(pieces) > 1:
            pieces[:] = [torch.cat(pieces)]
        return pieces[0]

    def _length(self) -> int:
        return sum(piece.shape[0] for piece in next(iter(self._hidden.values())))


def watch(model: Any, geometry: Geometry) -> tuple[Mixer, ...]:
    """Let the recurrent layers of `model` note what they read in caches that carry a `Recording`.

    Returns them in order. Raises `UnsupportedModelError` where the model has not the layers that its geometry names.
    """
    if geometry.recurrent is None:
        return ()
    kind = MIXERS[geometry.recurrent.kind]
    modules = {
        module.layer_idx: module
        for module in model.modules()
        if hasattr(module, kind.projection) and getattr(module, "layer_idx", None) in geometry.recurrent.indices
    }
    if tuple(sorted(modules)) != geometry.recurrent.indices:
        raise UnsupportedModelError(
            f"recurrent layers {sorted(modules)} found in {type(model).__name__}, its V14 directory names "
            f"{list(geometry.recurrent.indices)}; run `v14 upgrade` again"
        )
    for module in modules.values():
        module.register_forward_pre_hook(_note, with_kwargs=True)
    return tuple(kind(modules[index]) for index in geometry.recurrent.indices)


def _note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for value in kwargs.values():
        recording = getattr(value, "recording", None)
        if isinstance(recording, Recording):
            hidden = args[0] if args else kwargs["hidden_states"]
            recording.note(module.layer_idx, hidden[0])
