"""At start: refuse what cannot be served, prove that every hook is in place, open the memory."""

import logging
import os
from typing import Any

from sglang.srt.plugins.hook_registry import HookRegistry

from v14.config import Switches
from v14.engines.sglang import decoding, runtime, seams, server_args, symbols
from v14.engines.sglang.directory import is_v14_directory, load_profile
from v14.engines.sglang.ranks import Ranks
from v14.engines.sglang.recurrent import refused_states
from v14.engines.sglang.scrub import share_one_heap
from v14.engines.sglang.shards import refused_ranks
from v14.engines.sglang.telling import FLAG
from v14.errors import V14Error
from v14.memory import Memory, check_store
from v14.namespaces import Namespaces
from v14.profile import Profile
from v14.recall.warming import warm

logger = logging.getLogger("v14")


def missing_hooks() -> list[str]:
    """Seams whose hook SGLang has not applied (it only logs such a failure)."""
    applied = HookRegistry._patched
    return [f"{seam.target}: {seam.why}" for seam in symbols.SEAMS if seam.target not in applied]


def refuse(lines: list[str]) -> None:
    """Stop with one message for everything that is wrong."""
    if lines:
        raise SystemExit(
            "sglang-v14 cannot serve this model with memory:\n  "
            + "\n  ".join(lines)
            + "\n  (SGLANG_V14_MEMORY=0 serves the plain checkpoint)"
        )


def refuse_unserved(result: Any, args: Any) -> Any:
    """After SGLang has checked its own arguments, before any process is started."""
    if Switches.read().memory and is_v14_directory(args.model_path):
        try:
            profile = load_profile(args.model_path)
            Namespaces.open(Switches.read())
            check_store(Switches.read(), profile.weights_id)
        except V14Error as error:
            raise SystemExit(f"sglang-v14: {error}") from error
        ranks = refused_ranks(args.tp_size, profile.geometry, profile.options)
        later = decoding.refused_while_decoding(args, profile.options)
        refuse([*missing_hooks(), *server_args.refusals(args), *ranks, *later])
        # The scheduler is still to be started, and inherits it.
        share_one_heap(os.environ)
    return result


def open_memory(result: Any, scheduler: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
    """Once the scheduler has its pools: open the store, or serve without memory if it cannot be opened."""
    switches = Switches.read()
    if not (switches.memory and is_v14_directory(args.model_path)):
        return result
    refuse([*missing_hooks(), *server_args.refusals(args)])
    ranks = Ranks(seams.ranks_group(scheduler))
    memory, available = _opened(ranks, load_profile(args.model_path), switches, scheduler.device)
    engine = runtime.Runtime(memory, scheduler, ranks) if available else None
    if seams.metrics_enabled(args) and ranks.leads:
        # Imported only now: see there.
        from v14.engines.sglang.metrics import Exporter

        exporter = Exporter(seams.served_name(args))
        exporter.watch_memory(memory, lambda: 0 if engine is None else engine.num_waiting)
        exporter.start()
    if engine is not None:
        attention, sinks = scheduler.tp_worker.model_runner.attn_backend, bool(memory.profile.voters.sinks)
        scales = seams.kv_scales(scheduler.tp_worker.model_runner.model)
        refuse(server_args.refused_engine(attention, engine.kv_pool, sinks=sinks, kv_scales=scales))
        if engine.states is not None:
            refuse(refused_states(scheduler.req_to_token_pool, memory.profile.geometry))
        runtime.install(engine)
        if ranks.leads and memory.device.type == "cuda":
            with memory.guard("warm"):
                warm(memory.profile.geometry, memory.profile.voters, memory.device)
        if ranks.leads:
            logger.info("memory: %s events, home %s", sum(memory.store.namespaces().values()), switches.memory_home)
    return result


def _opened(ranks: Ranks, profile: Profile, switches: Switches, device: str) -> tuple[Memory, bool]:
    """The memory, and whether there is a store: of several ranks, the first has it."""
    made: list[Memory] = []

    def open_store() -> bool:
        made.append(Memory.open(profile, switches, device=device))
        return made[0].available

    available = ranks.told(FLAG, open_store)
    return made[0] if made else Memory(profile, switches, None, "the first rank has the store: ask it"), available
