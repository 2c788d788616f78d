"""A function on several ranks at once: forked processes with a group of their own, as SGLang's CPU processes have."""

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMEOUT_S = 60


def on_ranks(size: int, meeting: Path, function: Callable[[Any], Any]) -> list[Any]:
    """What `function(ranks)` returned or raised on each rank. `meeting` is a file that is not there yet."""
    context = multiprocessing.get_context("fork")
    ends = [context.Pipe(duplex=False) for _ in range(size)]
    processes = [
        context.Process(target=_run, args=(rank, size, meeting, function, ends[rank][1]), daemon=True)
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    try:
        found = []
        for receiving, _ in ends:
            assert receiving.poll(TIMEOUT_S), "a rank waits for another"
            found.append(receiving.recv())
        return found
    finally:
        for process in processes:
            process.kill()
            process.join()


def _run(rank: int, size: int, meeting: Path, function: Callable[[Any], Any], end: Any) -> None:
    import torch
    import torch.distributed as dist

    from v14.engines.sglang.ranks import Ranks

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    try:
        result = function(Ranks(dist.group.WORLD))
    except Exception as error:  # noqa: BLE001 - what was raised is the result
        result = error
    end.send(result)
    dist.barrier()
    os._exit(0)


def arguments(size: int) -> tuple[str, ...]:
    """Of a server with so many ranks."""
    return ("--tp-size", str(size))


def environment(size: int) -> dict[str, str]:
    """Of the same: SGLang wants to be told which cores each rank has, unless each has a socket of its own. All have
    all: who else wants a core is not known."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    return {"SGLANG_CPU_OMP_THREADS_BIND": "|".join([cores] * size)}
