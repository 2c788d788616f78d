"""Qwen3: Qwen2's layers with norms on queries and keys, which the keys carry already when they are stored."""

from v14.models.qwen2 import Qwen2


class Qwen3(Qwen2):
    """`Qwen3ForCausalLM` (dense)."""

    architecture = "Qwen3ForCausalLM"
    config_class = "Qwen3Config"
    head_dim = 128
