"""The attention backend where nobody names one: the fastest that is served with memory."""

import importlib.util
import logging
from typing import Any

from v14.config import Switches
from v14.engines.sglang.directory import is_v14_directory

logger = logging.getLogger("v14")

FASTEST = frozenset({"fa3", "fa4", "trtllm_mha"})
"""What SGLang chooses by itself on Hopper and Blackwell, and the memory does not serve."""


def choose_served(result: str, args: Any, *rest: Any, **kwargs: Any) -> str:
    """SGLang has chosen an attention backend for a model (`model_config`, last)."""
    if result not in FASTEST or not Switches.read().memory or not is_v14_directory(args.model_path):
        return result
    model_config: Any = kwargs["model_config"] if "model_config" in kwargs else rest[-1]
    # FlashInfer knows no sinks.
    can_flashinfer = importlib.util.find_spec("flashinfer") is not None
    chosen = "flashinfer" if can_flashinfer and not model_config.has_attention_sinks else "triton"
    logger.info("attention by %s: %s, which SGLang prefers here, is not served with memory", chosen, result)
    return chosen
