"""Mapping a V14 architecture to SGLang's native model while its configuration is loaded.

The native name is what SGLang's tables know (draft models, graph rules, hybrid pools), so the name is changed back as
early as the configuration exists, and no model class is registered.
"""

from typing import Any

from v14.engines.sglang.directory import base_architecture


def serve_native(config: Any, *args: Any, **kwargs: Any) -> Any:
    """Put the native architecture name in place of a V14 one."""
    names = getattr(config, "architectures", None) or []
    native = base_architecture(names[0]) if names else None
    if native is not None:
        config.update({"architectures": [native, *names[1:]]})
    return config
