"""`generate` with memory: which calls take part, how their arguments change, and what is stored afterwards."""

import logging
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, get_args

import torch

from v14.config import Mode
from v14.engines.transformers.reading import Reading, forward, read_plain, read_with_memory
from v14.errors import OptionError
from v14.memory import Memory, Session
from v14.reinstate.cost import Way
from v14.types import Plan

logger = logging.getLogger("v14")

DEFAULT_NEW_TOKENS = 20
"""What `generate` writes when no length is set anywhere."""

_FOREIGN = (
    "inputs_embeds",
    "past_key_values",
    "position_ids",
    "assistant_model",
    "custom_generate",
    "negative_prompt_ids",
)
"""Arguments of `generate` that bring their own inputs, cache or decoding loop."""

NO_PICTURES = ("mm_token_type_ids", "token_type_ids")
"""Arguments that a multimodal processor gives with every prompt: all 0 where there is nothing but text."""

_PLAIN_SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "num_beams": (None, 1),
    "num_return_sequences": (None, 1),
    "use_cache": (None, True),
    "cache_implementation": (None, "dynamic", "hybrid"),
    "prefill_chunk_size": (None,),
    "prompt_lookup_num_tokens": (None,),
    "guidance_scale": (None, 1, 1.0),
    "token_healing": (None, False),
}
"""Generation settings and the values with which a call can have memory."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the memory did for the last call: for people and for tests.

    `span_position` is where the recalled span stood and `reinstated` how it came there, `seconds` the time by concern,
    `num_stored` the new events.
    """

    namespace: str
    mode: Mode
    plan: Plan
    span_position: int | None
    reinstated: Way | None
    num_stored: int
    seconds: Mapping[str, float]


class WithoutSpan:
    """A streamer that shows the real prompt where `generate` puts the one with spans."""

    def __init__(self, streamer: Any, prompt: torch.Tensor) -> None:
        self._streamer = streamer
        self._prompt: torch.Tensor | None = prompt

    def put(self, value: torch.Tensor) -> None:
        """The prompt once, then what comes."""
        prompt, self._prompt = self._prompt, None
        self._streamer.put(value if prompt is None else prompt.cpu())

    def end(self) -> None:
        """Pass on."""
        self._streamer.end()


def generate_with_memory(
    model: Any,
    memory: Memory,
    plain: Callable[..., Any],
    input_ids: torch.Tensor,
    generation_config: Any,
    kwargs: dict[str, Any],
    namespace: str,
    mode: Mode,
) -> tuple[Any, Decision]:
    """One sequence `[1, T]` through `plain`, the library's own `generate`, with recall in front and storing behind.

    Returns what `plain` returns, spans taken out of its token ids, and the decision. Memory failures are counted in
    `memory.counters` and logged; the call then goes on without.
    """
    session = memory.session(namespace)
    clock = session.clock
    token_ids = input_ids[0].tolist()
    stores = mode in ("both", "write")
    reading: Reading | None = None
    if mode in ("both", "read"):
        room = _room(model, generation_config, kwargs, len(token_ids))
        with memory.guard("recall"):
            reading = read_with_memory(model, session, token_ids, room, record=stores)
    recalled = reading is not None
    if reading is None:
        reason = "not asked to recall" if mode == "write" else "recall failed"
        reading = read_plain(model, session, token_ids, reason, record=stores)
    sequence = torch.tensor([reading.sequence.token_ids], device=input_ids.device)
    generation_config, kwargs = _lengthened(
        model, generation_config, kwargs, len(token_ids), sequence.shape[1] - len(token_ids)
    )
    if kwargs.get("streamer") is not None:
        kwargs["streamer"] = WithoutSpan(kwargs["streamer"], input_ids)
    kwargs |= {"past_key_values": reading.cache, "attention_mask": torch.ones_like(sequence)}
    if getattr(model.base_model, "rope_deltas", None) is not None:
        # Multimodal models keep the offset of the last call's pictures, and add it when a call begins with a cache.
        model.base_model.rope_deltas = None
    with clock.measure("generate"):
        output = plain(sequence, generation_config, **kwargs)
    tokens = output if isinstance(output, torch.Tensor) else output.sequences
    written = tokens[:, sequence.shape[1] :]
    num_stored = 0
    if recalled:
        with memory.guard("record"):
            session.record(token_ids, reading.placements)
    if stores:
        with memory.guard("observe"), clock.measure("observe"):
            num_stored = _observe(model, session, reading, token_ids, written[0].tolist())
    real = torch.cat([input_ids, written], dim=-1)
    if isinstance(output, torch.Tensor):
        output = real
    else:
        output.sequences = real
    decision = Decision(
        namespace=namespace,
        mode=mode,
        plan=reading.plan,
        span_position=reading.sequence.starts[-1] if reading.plan.events else None,
        reinstated=reading.way,
        num_stored=num_stored,
        seconds=dict(clock.seconds),
    )
    if memory.switches.profile:
        logger.info("profile namespace=%s %s", namespace, clock)
    return output, decision


def unfit(model: Any, inputs: Any, generation_config: Any, kwargs: Mapping[str, Any]) -> str | None:
    """Why a call of `generate` runs without memory, or None when it can have it."""
    foreign = [name for name in _FOREIGN if kwargs.get(name) is not None]
    foreign += [name for name in kwargs if name.startswith(("pixel_", "image_", "video_", "audio_", "input_features"))]
    if foreign:
        return f"{', '.join(foreign)} given"
    if not isinstance(inputs, torch.Tensor) or inputs.dim() != 2 or inputs.shape[1] == 0:
        return "no token ids given"
    if inputs.shape[0] != 1:
        return f"{inputs.shape[0]} sequences in one batch"
    if any(kwargs.get(name) is not None and bool((kwargs[name] != 0).any()) for name in NO_PICTURES):
        return "something else than text in the prompt"
    mask = kwargs.get("attention_mask")
    if mask is not None and (mask.shape != inputs.shape or not bool((mask == 1).all())):
        return "padding in the prompt"
    for name, allowed in _PLAIN_SETTINGS.items():
        if (value := _setting(model, generation_config, kwargs, name)) not in allowed:
            return f"{name}={value!r}"
    return None


def check_mode(mode: str) -> None:
    """Raise `OptionError` for a mode that does not exist."""
    if mode not in get_args(Mode):
        raise OptionError(f"v14_memory={mode!r} is none of {', '.join(get_args(Mode))}")


def _observe(model: Any, session: Session, reading: Reading, token_ids: list[int], written: list[int]) -> int:
    """Store the prompt's events and, if the options say so, the reply's."""
    positions = list(reading.sequence.positions)
    if session.memory.profile.options.write_generated and written:
        sequence = (*reading.sequence.token_ids, *written)
        if reading.cache.get_seq_length() < len(sequence):
            # The last token was sampled and never read: its keys and values are computed here.
            forward(model, reading.cache, sequence)
        positions.extend(range(len(reading.sequence.token_ids), len(sequence)))
        token_ids = token_ids + written
    return session.observe(token_ids, positions, reading.cache.read, read_engram=reading.cache.read_engram)


def _setting(model: Any, generation_config: Any, kwargs: Mapping[str, Any], name: str) -> Any:
    """A generation setting as `generate` resolves it: argument, given configuration, the model's own."""
    for source in (
        kwargs.get(name),
        getattr(generation_config, name, None),
        getattr(model.generation_config, name, None),
    ):
        if source is not None:
            return source
    return None


def _room(model: Any, generation_config: Any, kwargs: Mapping[str, Any], num_tokens: int) -> int | None:
    """Tokens left in the model's context beside the prompt and what may be written."""
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if limit is None:
        return None
    to_write = _setting(model, generation_config, kwargs, "max_new_tokens")
    if to_write is None:
        longest = _setting(model, generation_config, kwargs, "max_length")
        to_write = DEFAULT_NEW_TOKENS if longest is None else max(0, longest - num_tokens)
    return max(0, int(limit) - num_tokens - int(to_write))


def _lengthened(
    model: Any, generation_config: Any, kwargs: Mapping[str, Any], num_tokens: int, num_span_tokens: int
) -> tuple[Any, dict[str, Any]]:
    """Copies of the arguments whose total lengths, if any exceed the prompt's, count the span's tokens too."""
    changed = {}
    for name in ("max_length", "min_length"):
        length = _setting(model, generation_config, kwargs, name)
        counts_new = _setting(model, generation_config, kwargs, f"{name[:3]}_new_tokens") is not None
        if num_span_tokens and not counts_new and length is not None and length > num_tokens:
            changed[name] = length + num_span_tokens
    if generation_config is None:
        return None, {**kwargs, **changed}
    generation_config = copy(generation_config)
    for name, length in changed.items():
        setattr(generation_config, name, length)
    return generation_config, {name: changed.get(name, value) for name, value in kwargs.items()}
