"""The only door for engines: open a memory, take a session of a namespace, and walk a request through it.

    layout    where the request's new part begins, and which spans its earlier turns stand behind
    plan      the cue's votes become the events to reinstate
    sequence  the request's token ids with every span's ids in place
    span      the keys and values of one placement, rotated to where they stand
    observe   what was read and written becomes events

An engine calls these inside `Memory.guard`, so that whatever fails here costs the recall and never the request.
"""

from v14.memory.keeping import check_store, keeping_of
from v14.memory.memory import Memory
from v14.memory.session import ReadEngram, ReadKV, Session

__all__ = ["Memory", "ReadEngram", "ReadKV", "Session", "check_store", "keeping_of"]
