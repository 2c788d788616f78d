"""Adapters: what the memory has to know about a model family, read from a checkpoint's `config.json`."""

from v14.models.base import Adapter
from v14.models.registry import adapter_for, base_architecture

__all__ = ["Adapter", "adapter_for", "base_architecture"]
