"""Cutting an engram to a rank."""

from v14.types import Engram


def compress(engram: Engram, rank: int) -> Engram:
    """The engram with each head's erasing and writing part at rank `rank` at most."""
    raise NotImplementedError
