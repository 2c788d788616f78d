"""The parts of a SQLite file that no row owns: what was deleted may have left copies there, and nowhere else.

page             dead bytes
b-tree           between the pointers to its cells and the first cell, and in free blocks behind their four bytes
any other        all of it: overflow pages and the free list

Up to three bytes left over between two cells belong to neither; nothing of a row fits in there. The format is SQLite's
own promise: https://sqlite.org/fileformat2.html, sections 1.5 to 1.6 and 4.1.
"""

import os
import struct
from collections.abc import Iterator

FILE_HEADER_BYTES = 100
LOG_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24

_POINTERS_AT = {2: 12, 5: 12, 10: 8, 13: 8}
"""By the type of a b-tree page: where the pointers to its cells begin, after the start of its header."""


def dead_bytes(page: bytes, number: int) -> bytes:
    """The dead bytes of page `number` (the first is 1), part behind part; all of a page that makes no sense."""
    ranges = dead_ranges(page, number)
    return page if ranges is None else b"".join(page[start:end] for start, end in ranges)


def dead_ranges(page: bytes, number: int) -> list[tuple[int, int]] | None:
    """Where the dead bytes of a b-tree page lie, as [start, end) from the page's start; None for any other page."""
    start = FILE_HEADER_BYTES if number == 1 else 0
    pointers_at = _POINTERS_AT.get(page[start]) if len(page) >= start + 12 else None
    if pointers_at is None:
        return None
    block, num_cells, cells_at = struct.unpack_from(">HHH", page, start + 1)
    cells_at = cells_at or 65536
    pointers_end = start + pointers_at + 2 * num_cells
    if not pointers_end <= cells_at <= len(page):
        return None
    ranges = [(pointers_end, cells_at)]
    while block:
        if not cells_at <= block <= len(page) - 4:
            return None
        following, size = struct.unpack_from(">HH", page, block)
        if not 4 <= size <= (following or len(page)) - block:
            return None
        ranges.append((block + 4, block + size))
        block = following
    return ranges


def page_size_of(descriptor: int) -> int:
    """Bytes of a page of an open database file; 0 for a file without header."""
    header = os.pread(descriptor, FILE_HEADER_BYTES, 0)
    size = int.from_bytes(header[16:18]) if len(header) == FILE_HEADER_BYTES else 0
    return 65536 if size == 1 else size


def logged_pages(descriptor: int) -> Iterator[int]:
    """Numbers of the pages in an open write-ahead log since it was last begun anew, those of every transaction.

    Frames that another beginning wrote have other salts. What a transaction that was rolled back left counts, too.
    """
    header = os.pread(descriptor, LOG_HEADER_BYTES, 0)
    if len(header) < LOG_HEADER_BYTES:
        return
    place, step, salts = LOG_HEADER_BYTES, FRAME_HEADER_BYTES + int.from_bytes(header[8:12]), header[16:24]
    while len(frame := os.pread(descriptor, FRAME_HEADER_BYTES, place)) == FRAME_HEADER_BYTES:
        if frame[8:16] != salts:
            return
        yield int.from_bytes(frame[:4])
        place += step
