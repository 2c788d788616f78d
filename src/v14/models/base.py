"""What an adapter is: names, and the geometry of the layers that remember from a raw `config.json`."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from v14.errors import UnsupportedModelError
from v14.geometry import AttentionLayer, Geometry, RecurrentStack, Rotary

FULL, SLIDING = "full_attention", "sliding_attention"
LINEAR, CONV = "linear_attention", "conv"


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Attention heads of every layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int


@dataclass(frozen=True, kw_only=True)
class Adapter(ABC):
    """One architecture of a family.

    `architecture` is its name in `config.json` and its class in Transformers, `config_class` that of its configuration.
    `v14_name`, the name in a V14 directory, is derived where none is given: LlamaForCausalLM becomes
    LlamaV14ForCausalLM.
    """

    architecture: str
    config_class: str
    v14_name: str = ""

    def __post_init__(self) -> None:
        """Derive the V14 name."""
        if not self.v14_name:
            object.__setattr__(self, "v14_name", self.architecture.replace("For", "V14For", 1))

    @property
    def takes_pictures(self) -> bool:
        """Whether the class reads more than text; its language model is then described by a config of its own."""
        return self.v14_name.endswith("ForConditionalGeneration")

    @abstractmethod
    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """The geometry of a raw `config.json`. Raises `UnsupportedModelError` naming what cannot be served."""


WITHOUT = "; SGLang serves the checkpoint itself, without memory"
"""What remains for a model that the memory does not know."""


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a config that describes the language model: a nested one (`llm_config` in older files), or all."""
    return config.get("text_config") or config.get("llm_config") or config


def required(config: Mapping[str, Any], key: str) -> Any:
    """A value that every checkpoint of the family writes."""
    if config.get(key) is None:
        raise UnsupportedModelError(
            f"config.json has no {key!r}; the checkpoint is incomplete or of another family: download it again"
        )
    return config[key]


def heads(config: Mapping[str, Any], *, head_dim: int | None = None) -> Heads:
    """Head counts and dimension; `head_dim` is the family's default where the config names none."""
    num_heads = int(required(config, "num_attention_heads"))
    dim = config.get("head_dim") or head_dim or int(required(config, "hidden_size")) // num_heads
    num_kv_heads = int(config.get("num_key_value_heads") or num_heads)
    return Heads(num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=int(dim))


def layer_types(
    config: Mapping[str, Any], *, default: Sequence[str], known: Collection[str] = (FULL, SLIDING)
) -> Sequence[str]:
    """The kind of each layer: as written, else the family's default; a kind that is not `known` is refused."""
    kinds = list(config.get("layer_types") or default)
    if len(kinds) != int(required(config, "num_hidden_layers")):
        raise UnsupportedModelError(
            f"config.json: {len(kinds)} layer_types for {config['num_hidden_layers']} layers; download it again"
        )
    return checked(kinds, known)


def checked(kinds: Sequence[str], known: Collection[str]) -> Sequence[str]:
    """`kinds`, all of them `known`."""
    for kind in kinds:
        if kind not in known:
            raise UnsupportedModelError(f"config.json: layer type {kind!r} is none of {', '.join(known)}{WITHOUT}")
    return kinds


def indices_of(kind: str, kinds: Sequence[str]) -> tuple[int, ...]:
    """Where the layers of a kind stand among all layers."""
    return tuple(index for index, other in enumerate(kinds) if other == kind)


def every(interval: int, num_layers: int, *, this: str, others: str) -> list[str]:
    """Kinds of layers where each `interval`-th is `this`: the default layout of most mixed families."""
    return [others if (index + 1) % interval else this for index in range(num_layers)]


def assemble(
    shape: Heads,
    kinds: Sequence[str],
    rotaries: Mapping[str, Rotary | None],
    window: int | None,
    scaling: float,
    recurrent: RecurrentStack | None = None,
) -> Geometry:
    """A geometry whose attention layers differ only by kind; layers of other kinds hold no KV, and a recurrent stack
    may turn out to have no layers."""
    if SLIDING in kinds and window is None:
        raise UnsupportedModelError("config.json has sliding layers but no 'sliding_window'; download it again")
    layers = tuple(
        AttentionLayer(index=index, rotary=rotaries[kind], scaling=scaling, window=window if kind == SLIDING else None)
        for index, kind in enumerate(kinds)
        if kind in (FULL, SLIDING)
    )
    if not layers:
        raise UnsupportedModelError(f"config.json has no attention layer, so nothing could find an event{WITHOUT}")
    return Geometry(
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        layers=layers,
        recurrent=recurrent if recurrent is not None and recurrent.indices else None,
    )
