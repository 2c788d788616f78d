"""What a model is, as far as its memory is concerned: attention layers, heads, rotation, windows, recurrent layers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """Rotary position embedding of one kind of layer.

    `inv_freq` holds one angular step (radians per position) per rotated pair; pair i is dimensions
    (i, i + n) of the head with n = len(inv_freq) (the "half" layout). Dimensions from 2n on do not turn.
    A constant amplitude on cosine and sine (YaRN) cancels when a key is moved and is left out.
    """

    inv_freq: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class AttentionLayer:
    """One layer that holds KV. `index` counts all layers of the model; `window` is None for full attention
    and otherwise the number of keys that a query sees, itself included; `scaling` multiplies q·k."""

    index: int
    rotary: Rotary | None
    scaling: float
    window: int | None = None


RecurrentKind = Literal["gated_delta", "mamba2", "conv"]


@dataclass(frozen=True, kw_only=True)
class RecurrentStack:
    """The recurrent layers of a model: one kind, one shape.

    `indices` count all layers of the model, ascending. Each of `num_heads` heads keeps a state S, `[value_dim,
    key_dim]`: `gated_delta` is S ↦ α S (I − β k kᵀ) + β v kᵀ, `mamba2` is S ↦ a S + Δ x Bᵀ (key_dim is the state size,
    value_dim the head dimension), `conv` has no state at all (heads and dimensions 0). In front of each stands a causal
    convolution over `conv_channels` channels that sees `conv_width` tokens, its own included.
    """

    kind: RecurrentKind
    indices: tuple[int, ...]
    num_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0
    conv_channels: int
    conv_width: int


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The layers of a model that remember, in order.

    Heads and head dimension are the same in all attention layers (`layers`); `recurrent` is None where there are no
    others. Not `placeable` is a model in which more than keys, values and the recurrent layers' states crosses from an
    event to what follows it, so that a trace is not all of it and events can only be read again.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    layers: tuple[AttentionLayer, ...]
    recurrent: RecurrentStack | None = None
    placeable: bool = True

    @property
    def group(self) -> int:
        """Query heads that share one KV head."""
        return self.num_heads // self.num_kv_heads

    def slot(self, layer_index: int) -> int:
        """Place of the layer with model index `layer_index` among the layers that hold KV (the L axis)."""
        for slot, layer in enumerate(self.layers):
            if layer.index == layer_index:
                return slot
        raise KeyError(f"layer {layer_index} holds no KV")

    def to_json(self) -> dict[str, Any]:
        """Plain values; equal rotaries are written once."""
        rotaries: list[Rotary | None] = []
        layers = []
        for layer in self.layers:
            if layer.rotary not in rotaries:
                rotaries.append(layer.rotary)
            layers.append({**asdict(layer), "rotary": rotaries.index(layer.rotary)})
        return {
            "num_heads": self.num_heads,
            "num_kv_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "rotaries": [None if r is None else list(r.inv_freq) for r in rotaries],
            "layers": layers,
            "recurrent": None if self.recurrent is None else asdict(self.recurrent),
            "placeable": self.placeable,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Geometry":
        """The inverse of `to_json`."""
        rotaries = [None if r is None else Rotary(inv_freq=tuple(r)) for r in data["rotaries"]]
        layers = tuple(AttentionLayer(**{**layer, "rotary": rotaries[layer["rotary"]]}) for layer in data["layers"])
        recurrent = data.get("recurrent")
        return cls(
            num_heads=data["num_heads"],
            num_kv_heads=data["num_kv_heads"],
            head_dim=data["head_dim"],
            layers=layers,
            recurrent=recurrent and RecurrentStack(**{**recurrent, "indices": tuple(recurrent["indices"])}),
            placeable=data.get("placeable", True),
        )
