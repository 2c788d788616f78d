"""The memory in Transformers: by a `Cache` subclass and the AttentionInterface, around unchanged model classes.

The reference that other engines are held against. `modeling_v14.py` of a V14 directory calls `with_memory`.
"""

from v14.engines.transformers.cache import MemoryCache
from v14.engines.transformers.generate import Decision
from v14.engines.transformers.model import with_memory

__all__ = ["Decision", "MemoryCache", "with_memory"]
