"""Entry point of SGLang's plugin group `sglang.srt.plugins`: runs in every process of the server.

SGLang swallows ordinary exceptions of a plugin and only logs a hook that it could not apply; what must stop the
server is therefore a `SystemExit`, and that every hook is in place is proved later (`hooks/start.py`).
"""

from v14.config import Switches
from v14.engines.sglang import symbols
from v14.errors import EngineError


def load() -> None:
    """Check switches and seams, then register every hook. Whatever is wrong stops the process."""
    try:
        _load()
    except Exception as error:
        raise SystemExit(f"sglang-v14: {error}") from error


def _load() -> None:
    switches = Switches.read()
    needed = symbols.SEAMS if switches.memory else (symbols.PARSE_CONFIG,)
    problems = symbols.problems((*needed, *symbols.CALLED) if switches.memory else needed)
    if problems:
        raise EngineError(
            f"the installed SGLang does not fit (tested: {symbols.TESTED_VERSIONS}):\n  "
            + "\n  ".join(problems)
            + "\n  Install a tested SGLang, or uninstall sglang-v14 to serve without memory."
        )
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from v14.engines.sglang.hooks import TABLE
    from v14.engines.sglang.hooks.backend import choose_served

    for seam, kind, hook in TABLE:
        if seam in needed:
            HookRegistry.register(seam.target, hook, HookType(kind))
    if switches.memory:
        HookRegistry.register(symbols.present(symbols.DEFAULT_BACKEND).target, choose_served, HookType.AFTER)
