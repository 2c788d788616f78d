"""What an adapter is: names, and the geometry of the attention layers from a raw `config.json`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from v14.errors import UnsupportedModelError
from v14.geometry import AttentionLayer, Geometry, Rotary

FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Attention heads of every layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int


class Adapter(ABC):
    """One architecture. `architecture` is its name in `config.json`, `config_class` that of its Transformers config."""

    architecture: ClassVar[str]
    config_class: ClassVar[str]

    @property
    def base_name(self) -> str:
        """The checkpoint's own architecture name."""
        return self.architecture

    @property
    def v14_name(self) -> str:
        """The architecture name in a V14 directory: LlamaForCausalLM becomes LlamaV14ForCausalLM."""
        return self.architecture.replace("For", "V14For", 1)

    @abstractmethod
    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """The geometry of a raw `config.json`. Raises `UnsupportedModelError` naming what cannot be served."""


def base_architecture(v14_name: str) -> str:
    """The native architecture behind a V14 name; other names come back as they are."""
    return v14_name.replace("V14For", "For", 1)


def required(config: Mapping[str, Any], key: str) -> Any:
    """A value that every checkpoint of the family writes."""
    if config.get(key) is None:
        raise UnsupportedModelError(f"config.json has no {key!r}; the checkpoint is incomplete or of another family")
    return config[key]


def heads(config: Mapping[str, Any], *, head_dim: int | None = None) -> Heads:
    """Head counts and dimension; `head_dim` is the family's default where the config names none."""
    num_heads = int(required(config, "num_attention_heads"))
    dim = config.get("head_dim") or head_dim or int(required(config, "hidden_size")) // num_heads
    num_kv_heads = int(config.get("num_key_value_heads") or num_heads)
    return Heads(num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=int(dim))


def layer_types(config: Mapping[str, Any], *, default: Sequence[str]) -> Sequence[str]:
    """The kind of each layer: as written, else the family's default; a kind without KV is refused."""
    kinds = list(config.get("layer_types") or default)
    if len(kinds) != int(required(config, "num_hidden_layers")):
        raise UnsupportedModelError(f"config.json: {len(kinds)} layer_types for {config['num_hidden_layers']} layers")
    for kind in kinds:
        if kind not in (FULL, SLIDING):
            raise UnsupportedModelError(f"config.json: layer type {kind!r} is neither {FULL} nor {SLIDING}")
    return kinds


def assemble(
    shape: Heads, kinds: Sequence[str], rotaries: Mapping[str, Rotary], window: int | None, scaling: float
) -> Geometry:
    """A geometry whose layers differ only by kind."""
    if SLIDING in kinds and window is None:
        raise UnsupportedModelError("config.json has sliding layers but no 'sliding_window'")
    layers = tuple(
        AttentionLayer(index=index, rotary=rotaries[kind], scaling=scaling, window=window if kind == SLIDING else None)
        for index, kind in enumerate(kinds)
    )
    return Geometry(num_heads=shape.num_heads, num_kv_heads=shape.num_kv_heads, head_dim=shape.head_dim, layers=layers)
