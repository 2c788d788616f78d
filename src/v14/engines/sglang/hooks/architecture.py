"""Mapping a V14 architecture to SGLang's native model while its configuration is loaded.

The native name is what SGLang's tables know (draft models, graph rules, hybrid pools), so the name is changed back as
early as the configuration exists, and no model class is registered.
"""

from typing import Any

from v14.models import base_architecture


def serve_native(config: Any, *args: Any, **kwargs: Any) -> Any:
    """Put the native architecture name in place of a V14 one."""
    names = getattr(config, "architectures", None) or []
    native = [base_architecture(name) for name in names]
    if native != names:
        config.update({"architectures": native})
    return config
