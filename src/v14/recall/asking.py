"""Cues as the kernels of votes take them, for keys in one form on one device.

Of a few thousand events a vote costs what its steps cost to begin, so what does not depend on the cue is on the device
before, and a cue goes there in one copy.

Shapes: V voters, Q tokens of a cue, D dimension of a head.
"""

import math
from collections.abc import Sequence

import torch

from v14.kernels.votes import Asked
from v14.recall.coding import Code, turn
from v14.recall.pool import upload
from v14.types import Cue


class Asking:
    """Cues of one set of voters."""

    def __init__(self, rows: torch.Tensor, scaling: Sequence[float], dim: int, code: Code) -> None:
        """`rows` `[V]` says which row of the keys each voter reads, `scaling` what multiplies its scores."""
        self._code = code
        self._dim = dim
        self._rows = upload(rows.int(), code.device)
        self._scaling = upload(torch.tensor(scaling)[:, None, None], code.device)
        self._centre = code.centre[rows.to(code.device)][..., None] if code.centre is not None else None

    def __call__(self, cue: Cue) -> Asked:
        """A cue for the keys in their form, with all voters."""
        return self.coded(self.plain(cue))

    def coded(self, plain: Asked) -> Asked:
        """What `plain` gives, for the keys in their form."""
        if self._code.form != "int8":
            return plain
        queries, context = plain.queries, plain.context
        if self._centre is not None:
            # What the centre adds to every score is taken off what the prompt offers.
            context = torch.baddbmm(context[..., None], queries, self._centre, alpha=-1)[..., 0]
        return plain._replace(queries=queries @ turn(self._dim, self._code.device), context=context)

    def plain(self, cue: Cue) -> Asked:
        """A cue on the device, with what scales the scores, for keys as they are."""
        if cue.queries.device == self._code.device:
            inverse = torch.full((1,), 1 / cue.queries.shape[1], device=self._code.device)
            return Asked(cue.queries * self._scaling, cue.context_lse, self._rows, inverse)
        inlet = self.inlet(cue.queries.shape[1])
        inlet.fill(cue)
        return inlet.plain()

    def inlet(self, num_tokens: int) -> "Inlet":
        """Memory through which cues of up to so many tokens come to the device."""
        return Inlet(self._rows, self._scaling, num_tokens, self._dim)


class Inlet:
    """A cue's way to the device: queries `[V, Q, D]`, context `[V, Q]` and one over its tokens' number, in one copy."""

    def __init__(self, rows: torch.Tensor, scaling: torch.Tensor, num_tokens: int, dim: int) -> None:
        self._rows, self._scaling = rows, scaling
        self._shape = len(rows), num_tokens, dim
        self._sizes = [math.prod(self._shape), len(rows) * num_tokens, 1]
        self._host = torch.zeros(sum(self._sizes), pin_memory=rows.is_cuda)
        # By NumPy: PyTorch would fill it on all cores, and wait for those that are busy.
        queries, context, self._inverse = (each.numpy() for each in self._host.split_with_sizes(self._sizes))
        self._queries, self._context = queries.reshape(self._shape), context.reshape(self._shape[:2])

    def fill(self, cue: Cue) -> None:
        """Take in a cue; tokens that it has not ask for nothing."""
        num = cue.queries.shape[1]
        self._queries[:, :num], self._queries[:, num:] = cue.queries.cpu().numpy(), 0
        self._context[:, :num], self._context[:, num:] = cue.context_lse.cpu().numpy(), math.inf
        self._inverse[:] = 1 / num

    def plain(self) -> Asked:
        """What was filled in, on the device, with what scales the scores."""
        here = self._host.to(self._rows.device, non_blocking=True)
        queries, context, inverse = here.split_with_sizes(self._sizes)
        return Asked(queries.view(self._shape) * self._scaling, context.view(self._shape[:2]), self._rows, inverse)
