"""Overwriting freed memory of this process, so that what was forgotten does not stay in it unnamed.

Freed memory keeps its bytes until it is used again, and token ids pass through much of it: messages, arrays, keys of
the radix tree. So everything that is free is used once, filled with zeros, and freed again:

    Python's small objects   per size, until the interpreter has to map new memory
    NumPy's small arrays     per size, as many as it keeps
    the C library's          per size, the same; whole free pages go back to the system

The C library keeps a heap and a cache for each thread unless it is told otherwise before the process starts, which
`share_one_heap` does.
"""

import ctypes
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import suppress
from pathlib import Path

import numpy as np

PY_STEP, PY_LARGEST = 16, 512
"""Python serves objects up to 512 bytes from memory of its own, in sizes of 16 bytes (Objects/obmalloc.c)."""

NUMPY_LARGEST, NUMPY_KEPT = 1023, 7
"""NumPy keeps so many freed buffers of each size up to so many bytes (numpy/_core/src/multiarray/alloc.c, `datacache`).
Token ids are read from messages, and put into tensors, through arrays."""

C_SIZES = tuple(range(24, 1033, 16)) + tuple(2**power - 56 for power in range(11, 18))
"""Requests to the C library: each size that a thread caches (glibc, tcache), then growing ones up to what is mapped."""

MAX_BYTES = 1 << 28
"""Most bytes taken of one kind, should the end not be recognised."""


TUNABLES = {"glibc.malloc.arena_max": "1", "glibc.malloc.tcache_count": "0"}
"""Of the C library: one heap for all threads, and no pieces that a thread keeps for itself."""


def share_one_heap(environ: MutableMapping[str, str]) -> None:
    """Have processes that are started with this environment free their memory where `scrub` reaches it.

    What somebody has set there already stays.
    """
    given = environ.get("GLIBC_TUNABLES", "")
    added = (f"{name}={value}" for name, value in TUNABLES.items() if name not in given)
    environ["GLIBC_TUNABLES"] = ":".join(filter(None, (given, *added)))


def scrub() -> None:
    """Overwrite what is free. Takes a fraction of a second, in which nothing else runs."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.argtypes = [ctypes.c_void_p]
        libc.malloc_usable_size.restype, libc.malloc_usable_size.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
        _python()
        _numpy()
        _c_library(libc)
        libc.malloc_trim(ctypes.c_size_t(0))


def _python() -> None:
    known = _mapped()
    held = []
    header = b"".__sizeof__()
    for size in range(PY_STEP * -(-header // PY_STEP), PY_LARGEST + 1, PY_STEP):
        for _ in range(MAX_BYTES // size):
            filler = bytes(size - header)
            held.append(filler)
            if not known(id(filler)):
                break


def _numpy() -> None:
    held = [np.empty(size, np.uint8) for size in range(1, NUMPY_LARGEST + 1) for _ in range(NUMPY_KEPT)]
    for filler in held:
        filler.fill(0)


def _c_library(libc: ctypes.CDLL) -> None:
    known = _mapped()
    held = []
    for size in reversed(C_SIZES):
        for _ in range(MAX_BYTES // size):
            place = libc.malloc(size)
            ctypes.memset(place, 0, libc.malloc_usable_size(place))
            held.append(place)
            if not known(place):
                break
    for place in held:
        libc.free(place)


def _mapped() -> Callable[[int], bool]:
    """Whether an address was mapped when this was called."""
    ranges = list(_ranges())
    last: list[tuple[int, int]] = [(0, 0)]

    def known(address: int) -> bool:
        if not last[0][0] <= address < last[0][1]:
            last[0] = next((r for r in ranges if r[0] <= address < r[1]), (0, 0))
        return last[0][1] > 0

    return known


def _ranges() -> Iterator[tuple[int, int]]:
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, _, end = line.split(" ", 1)[0].partition("-")
        yield int(start, 16), int(end, 16)
