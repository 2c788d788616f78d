"""Cues as the kernels of votes take them, for keys in one form on one device.

Of a few thousand events a vote costs what its steps cost to begin, so what does not depend on the cue is on the device
before, and a cue goes there in one copy.

Shapes: V voters, Q tokens of a cue, D dimension of a head.
"""

from collections.abc import Sequence

import torch

from v14.kernels.votes import Asked
from v14.recall.coding import Code, turn
from v14.recall.pool import upload
from v14.types import Cue


class Asking:
    """Cues of one set of voters."""

    def __init__(self, rows: torch.Tensor, scaling: Sequence[float], code: Code) -> None:
        """`rows` `[V]` says which row of the keys each voter reads, `scaling` what multiplies its scores."""
        self._code = code
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
        queries, context, rows = plain
        if self._centre is not None:
            # What the centre adds to every score is taken off what the prompt offers.
            context = torch.baddbmm(context[..., None], queries, self._centre, alpha=-1)[..., 0]
        return Asked(queries @ turn(queries.shape[-1], self._code.device), context, rows)

    def plain(self, cue: Cue) -> Asked:
        """A cue on the device, with what scales the scores, for keys as they are."""
        queries, context = cue.queries, cue.context_lse
        if queries.device != self._code.device:
            both = self._uploaded(queries, context)
            queries, context = both[: queries.numel()].view_as(queries), both[queries.numel() :].view_as(context)
        return Asked(queries * self._scaling, context, self._rows)

    def _uploaded(self, queries: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Both on the device, one behind the other, in one copy."""
        both = torch.empty(queries.numel() + context.numel(), pin_memory=self._code.device.type == "cuda")
        # By NumPy: PyTorch would do it on all cores, and wait for those that are busy.
        both.numpy()[: queries.numel()] = queries.cpu().numpy().ravel()
        both.numpy()[queries.numel() :] = context.cpu().numpy().ravel()
        return both.to(self._code.device, non_blocking=True)


def of_some(asked: Asked, voters: torch.Tensor) -> Asked:
    """What is asked at some of the voters, `[v]` on the device."""
    return Asked(*(each.index_select(0, voters) for each in asked))
