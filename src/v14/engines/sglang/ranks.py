"""Several schedulers serving one model (`--tp-size`): the first decides, all do the same.

SGLang hands every rank the same requests in the same order and expects the same steps of all. Only the first rank has a
store, an index and everything else that a decision depends on; the others are told. Each has the keys and values of its
own heads (`shards.py`): what the store or a vote needs is brought together on the first, what is placed is shared out
from there.

    told       what the first rank decides, on every rank
    agreed     whether something worked on every rank
    gathered   tensors of every rank, on the first
    scattered  each rank's own of the tensors of the first

All of them are called on the scheduler's thread, by every rank, at the same point of the same request. What fails on
one rank is told to all and raised on all, so that they go on alike: whatever may fail belongs inside the function that
is handed over, nothing of it in front of the call. They go over SGLang's own group of CPU processes, as SGLang's
requests do.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from pydantic import TypeAdapter

T = TypeVar("T")

FAILED = -1
"""Stands for a size where there is nothing to send, because of an error."""

Form = tuple[str, tuple[int, ...]]
"""A tensor's dtype and shape."""

_FORMS: TypeAdapter[list[Form]] = TypeAdapter(list[Form])


class RankError(RuntimeError):
    """Something failed on another rank, so that it counts as failed on this one, too."""


class Ranks:
    """The ranks of one model, seen from one of them. Without a group there is one rank, and nothing is sent."""

    def __init__(self, group: Any = None) -> None:
        self._group = group
        self.size: int = 1 if group is None else dist.get_world_size(group)
        self.rank: int = 0 if group is None else dist.get_rank(group)

    @property
    def leads(self) -> bool:
        """Whether this is the rank that decides."""
        return self.rank == 0

    def told(self, kind: TypeAdapter[T], decide: Callable[[], T]) -> T:
        """What `decide` returns on the first rank; it is not called on any other. Raises what it raises there, and
        `RankError` on the others."""
        if self.size == 1:
            return decide()
        if not self.leads:
            text, failed = self._heard()
            if failed:
                raise RankError(f"the first rank: {text.decode()}")
            return kind.validate_json(text)
        try:
            value = decide()
            text = kind.dump_json(value)
        except Exception as error:
            self._say(f"{type(error).__name__}: {error}".encode(), failed=True)
            raise
        self._say(text)
        return value

    def agreed(self, works: Callable[[], T]) -> T:
        """What `works` returns here. Raises what it raises here, or `RankError` if it raised on another rank."""
        if self.size == 1:
            return works()
        try:
            value = works()
        except Exception:
            self._num_failures(1)
            raise
        failures = self._num_failures(0)
        if failures:
            raise RankError(f"{failures} of {self.size} ranks failed; their logs say why, look there")
        return value

    def gathered(self, mine: Callable[[], Sequence[torch.Tensor]]) -> list[list[torch.Tensor]] | None:
        """Each rank's tensors (on the CPU, as many on all), by rank; None on other ranks than the first."""
        tensors = [tensor.contiguous() for tensor in self.agreed(mine)]
        found: list[list[torch.Tensor]] = [[] for _ in range(self.size)]
        for tensor in tensors:
            for rank, part in enumerate(self._gathered(tensor)):
                found[rank].append(part)
        return found if self.leads else None

    def scattered(self, parts: Callable[[], Sequence[Sequence[torch.Tensor]]]) -> list[torch.Tensor]:
        """This rank's own of the tensors that the first rank has for each: `parts()[rank]`, alike in dtype and shape
        for all ranks. `parts` is called there alone. Raises as `told`."""
        if self.size == 1:
            return list(parts()[0])
        made: list[Sequence[torch.Tensor]] = []

        def described() -> list[Form]:
            made.extend(parts())
            return [(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)) for tensor in made[0]]

        found = []
        forms: list[Form] = self.told(_FORMS, described)
        for index, (dtype, shape) in enumerate(forms):
            mine = torch.empty(shape, dtype=getattr(torch, dtype))
            parts_of = [_bytes(tensors[index]) for tensors in made] if self.leads else None
            dist.scatter(_bytes(mine), parts_of, src=self._first, group=self._group)
            found.append(mine)
        return found

    @property
    def _first(self) -> int:
        return dist.get_global_rank(self._group, 0)

    def _num_failures(self, mine: int) -> int:
        failures = torch.tensor([mine])
        dist.all_reduce(failures, group=self._group)
        return int(failures)

    def _say(self, text: bytes, *, failed: bool = False) -> None:
        head = torch.tensor([len(text), FAILED if failed else 0])
        dist.broadcast(head, self._first, group=self._group)
        if text:
            dist.broadcast(torch.frombuffer(bytearray(text), dtype=torch.uint8), self._first, group=self._group)

    def _heard(self) -> tuple[bytes, bool]:
        head = torch.empty(2, dtype=torch.int64)
        dist.broadcast(head, self._first, group=self._group)
        length, failed = head.tolist()
        text = torch.empty(length, dtype=torch.uint8)
        if length:
            dist.broadcast(text, self._first, group=self._group)
        return text.numpy().tobytes(), failed == FAILED

    def _gathered(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """One tensor of each rank, alike but for the first dimension; an empty list on other ranks than the first."""
        if self.size == 1:
            return [tensor]
        length = torch.tensor([tensor.shape[0]])
        lengths = [torch.empty_like(length) for _ in range(self.size)]
        dist.all_gather(lengths, length, group=self._group)
        longest = max(int(one) for one in lengths)
        padded = tensor.new_zeros(longest, *tensor.shape[1:])
        padded[: tensor.shape[0]] = tensor
        parts = [torch.empty_like(padded) for _ in range(self.size)] if self.leads else []
        if padded.numel():
            dist.gather(_bytes(padded), [_bytes(part) for part in parts] or None, dst=self._first, group=self._group)
        return [part[: int(one)] for part, one in zip(parts, lengths, strict=False)]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor's own memory: a group of CPU processes does not know every dtype."""
    return tensor.reshape(-1).view(torch.uint8)
