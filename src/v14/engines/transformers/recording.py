"""What recurrent layers were given to read, and the engrams of events from it.

A hook at the door of every recurrent layer notes the hidden states that enter it, in the cache of their sequence. So it
does not matter in how many forward passes a sequence was read, nor which of the layer's paths (chunks or single steps)
read it. All that an engram needs follows from these hidden states and the layer's own weights, and is computed only for
events that are stored.

Shapes as in `v14.types`; `hidden` is `[T, hidden size]`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.functional import conv1d, pad, softplus
from transformers.activations import ACT2FN

from v14.engram import Factors, conv_tail, gated_delta, mamba2, stack
from v14.errors import UnsupportedModelError
from v14.geometry import Geometry, RecurrentKind
from v14.types import Engram


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


class Recording:
    """The hidden states of one sequence at every recurrent layer, by position."""

    def __init__(self, mixers: Sequence[Mixer]) -> None:
        self._mixers = mixers
        self._hidden: dict[int, list[torch.Tensor]] = {mixer.index: [] for mixer in mixers}
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
