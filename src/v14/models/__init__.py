"""Adapters: what the memory has to know about a model family, read from a checkpoint's `config.json`."""

from v14.models.base import Adapter, base_architecture
from v14.models.registry import adapter_for

__all__ = ["Adapter", "adapter_for", "base_architecture"]
